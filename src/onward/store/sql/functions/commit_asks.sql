-- What hot runs ask for: `register` waits and stay, `suspend`, `release`, `park` with a reason, `mark` that a
-- suspect begins to execute.
--
-- Called by: commit, which has locked the runs' messages in an earlier statement.
-- Register and suspend carry all outstanding waits, sleeps and back-offs of a run. A pending of the same name
--   and attempt keeps its deadline: deadlines are facts, made when the body first reached them.
-- Suspend keeps the run where anything is ready: what became ready before the lock would wake nobody.
-- a_rows: how many journal rows the worker knew when it asked. Where there are more (a repeat after an unknown
--   outcome), the body may have given up some of these waits: the pendings are written, but nothing is settled, the
--   run is kept, and the answer is `stale`: the worker lets the body react and asks again.
-- Twice: pendings are kept, settled rows stay settled; a second suspend or release is `lost`, and so it should be.
-- Answers: an object for each run: {run, answer: ok | stale | suspended | lost | gone | cancelled, rows, waits, undecided}; rows are
--   what `settle` has journalled for the wants (a result, that is sent again too, has its own answer), waits what is
--   left with its seconds to go, undecided what the worker has to read and `judge`.
create or replace function onward.commit_asks(
    p_worker bigint, p_now timestamptz,
    a_runs uuid[], a_receipts bigint[], a_ops text[], a_notes text[], a_rows integer[],
    w_runs uuid[], w_names text[], w_kinds text[], w_events text[], w_matches text[], w_children uuid[],
    w_attempts integer[], w_limits integer[], w_errors bytea[], w_seconds float8[], w_untils timestamptz[])
returns jsonb
language plpgsql as $$
declare
    v_valid   uuid[];    -- register and suspend of a valid hand-out
    v_parking uuid[];    -- of these, the ones to be let go
    v_stale   uuid[];    -- of them, the ones whose journal the worker did not know whole
    v_ready   uuid[];
    v_last    bigint;
    v_answers jsonb;
begin
    select coalesce(array_agg(m.msg_id) filter (where a.op in ('register', 'suspend')), '{}'),
           coalesce(array_agg(m.msg_id) filter (where a.op = 'suspend'), '{}'),
           coalesce(array_agg(m.msg_id) filter (where a.op in ('register', 'suspend') and a.rows <>
                    (select count(*) from onward.step s where s.run_id = a.run)), '{}')
      into v_valid, v_parking, v_stale
      from unnest(a_runs, a_receipts, a_ops, a_rows) as a (run, receipt, op, rows)
     cross join lateral (
            select m.msg_id, m.owner, m.receipt from onward.message m where m.msg_id = a.run offset 0) m
     where m.owner = p_worker and m.receipt = a.receipt;

    if v_valid <> '{}' then
        delete from onward.pending p
         where p.run_id = any (v_valid)
           and (p.run_id, p.name, p.attempt) not in (
                select w.run, w.name, w.attempt from unnest(w_runs, w_names, w_attempts) as w (run, name, attempt));
        insert into onward.pending (run_id, name, kind, event, match, child, attempt, attempts, error, deadline, since)
        select w.run, w.name, w.kind, w.event, w.match::jsonb, w.child, w.attempt, w.attempts, w.error,
               coalesce(w.until, p_now + make_interval(secs => w.seconds), 'infinity'), p_now
          from unnest(w_runs, w_names, w_kinds, w_events, w_matches, w_children, w_attempts, w_limits, w_errors,
                      w_seconds, w_untils) with ordinality
               as w (run, name, kind, event, match, child, attempt, attempts, error, seconds, until, ord)
         where w.run = any (v_valid)
           and not exists (select 1 from onward.step s where s.run_id = w.run and s.name = w.name)
         order by w.ord
        on conflict do nothing;
        perform onward.settle(case when v_stale = '{}' then v_valid else
                              array(select unnest(v_valid) except select unnest(v_stale)) end, p_now);
    end if;

    select coalesce(array_agg(distinct w.run), '{}') into v_ready
      from unnest(w_runs, w_names) as w (run, name)
      left join onward.pending p on p.run_id = w.run and p.name = w.name
     where w.run = any (v_parking)
       and (p.run_id is null or p.deadline <= p_now or w.run = any (v_stale) or onward.is_due(w.run, p_now));

    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('run', a.run,
            'answer', case
                when m.msg_id is null then case when r.status = 'cancelled' then 'cancelled' else 'gone' end
                when m.owner is distinct from p_worker or m.receipt <> a.receipt then 'lost'
                when a.run = any (v_stale) then 'stale'
                when a.op = 'suspend' and a.run <> all (v_ready) then 'suspended'
                else 'ok' end,
            'rows', case when a.op in ('register', 'suspend') and m.receipt = a.receipt then (
                select jsonb_agg(jsonb_build_array(
                           s.name, s.kind, translate(encode(s.output, 'base64'), e'\n', ''),
                           translate(encode(s.error, 'base64'), e'\n', ''), s.attempt, s.completed_at, s.started_at)
                           order by s.seq)
                  from unnest(w_runs, w_names) as w (run, name)
                  join onward.step s on s.run_id = w.run and s.name = w.name and s.receipt = 0
                 where w.run = a.run) end,
            'waits', case when a.op in ('register', 'suspend') and m.receipt = a.receipt then (
                select jsonb_agg(jsonb_build_array(p.name, p.kind, p.attempt, case when p.deadline < 'infinity'
                                 then extract(epoch from p.deadline - p_now) end) order by p.seq)
                  from onward.pending p where p.run_id = a.run) end,
            'undecided', case when a.op in ('register', 'suspend') and m.receipt = a.receipt then (
                select jsonb_agg(jsonb_build_array(u.signal_id, translate(encode(u.payload, 'base64'), e'\n', ''),
                                                   u.match::text))
                  from onward.undecided(a.run) u) end)) order by a.ord)
      into v_answers
      from unnest(a_runs, a_receipts, a_ops) with ordinality as a (run, receipt, op, ord)
      left join onward.message m on m.msg_id = a.run
      left join onward.run_result r on r.run_id = a.run;

    select case when is_called then last_value else 0 end into v_last from onward.step_seq_seq;
    update onward.message m
       set owner = case when a.op in ('register', 'mark') or a.run = any (v_ready) then m.owner end,
           executing = a.op = 'mark' or (m.executing and (a.op = 'register' or a.run = any (v_ready))),
           reason = case when a.op = 'park' then a.note end,
           -- everything that this run has journalled so far lies below the sequence's value
           cached_by = case when a.op = 'suspend' and a.run <> all (v_ready) then p_worker end,
           cached_seq = v_last,
           visible_at = case
               when a.op = 'mark' then m.visible_at
               when a.op = 'release' then p_now
               when a.op = 'park' then p_now + interval '5 minutes'
               when a.run <> all (v_parking) or a.run = any (v_ready) then
                   case when onward.is_due(a.run, p_now) then p_now else
                       coalesce((select min(p.deadline) from onward.pending p
                                  where p.run_id = a.run and p.deadline > p_now), 'infinity') end
               else coalesce((select min(p.deadline) from onward.pending p
                               where p.run_id = a.run and p.deadline > p_now), 'infinity') end
      from unnest(a_runs, a_receipts, a_ops, a_notes) as a (run, receipt, op, note)
     where m.msg_id = a.run and m.receipt = a.receipt
       and m.owner is not distinct from p_worker;     -- not by the owner's index: see commit_steps
    return v_answers;
end
$$;
