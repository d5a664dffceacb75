-- Journals the results of steps. The hot path: one insert for the whole batch.
--
-- Called by: commit, behind the lane's gate. Locks: none on the messages: a thousand runs' steps would otherwise
--   write a thousand message rows. The gate is what makes the check safe: nobody else can come to own a run before
--   this lane's batch has ended, and a cancel that does is not acknowledged before that.
-- Where all hand-outs are valid and no row is there yet, as nearly always, that is all. Else each step is looked at.
-- p_held: the runs, each once a hand-out; p_sum: the sum of these receipts. Receipts only grow, so where as many messages
--   are this worker's and add up to the same, every hand-out is valid, which costs a third of a look a step.
-- p_values: outputs and errors end to end; p_sizes: how long each is, an error's below zero. p_kinds and p_attempts: null
--   where all are `run`, and the first.
-- Answers: null when every step is `ok`; else one word an item, see step_word, and when its row was journalled: a repeat
--   must not tell the body another time than a replay will.
create or replace function onward.commit_steps(
    p_worker bigint, p_now timestamptz, p_held uuid[], p_sum bigint, p_runs uuid[], p_receipts bigint[], p_names text[],
    p_kinds text[], p_values bytea, p_starts integer[], p_sizes integer[], p_attempts integer[], p_micros bigint[],
    out words text[], out times timestamptz[])
language plpgsql as $$
declare
    v_valid boolean;
begin
    -- not by the owner's index, which the planner thinks is short
    select count(*) = cardinality(p_held) and sum(receipt) = p_sum into v_valid from onward.message
     where msg_id = any (p_held) and owner is not distinct from p_worker and not paused;
    if v_valid then
        begin
            insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
            select i.run, i.name, coalesce(i.kind, 'run'),
                   case when i.size > 0 then substr(p_values, i.start, i.size) end,
                   case when i.size < 0 then substr(p_values, i.start, -i.size) end,
                   coalesce(i.attempt, 1), i.receipt, p_now - i.micros * interval '1 microsecond', p_now
              from unnest(p_runs, p_receipts, p_names, p_kinds, p_starts, p_sizes, p_attempts, p_micros)
                   as i (run, receipt, name, kind, start, size, attempt, micros);
            return;
        exception when unique_violation then    -- rare, and to look first costs a quarter of the insert
            null;
        end;
    end if;

    -- the same for those whose hand-out is valid; apart, because `on conflict` is what costs
    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select i.run, i.name, coalesce(i.kind, 'run'),
           case when i.size > 0 then substr(p_values, i.start, i.size) end,
           case when i.size < 0 then substr(p_values, i.start, -i.size) end,
           coalesce(i.attempt, 1), i.receipt, p_now - i.micros * interval '1 microsecond', p_now
      from unnest(p_runs, p_receipts, p_names, p_kinds, p_starts, p_sizes, p_attempts, p_micros)
           as i (run, receipt, name, kind, start, size, attempt, micros)
     cross join lateral (select m.owner, m.receipt from onward.message m where m.msg_id = i.run offset 0) m
     where m.receipt = i.receipt and m.owner = p_worker
    on conflict do nothing;

    select array_agg(onward.step_word(p_worker, i.run, i.receipt, i.name) order by i.ord),
           array_agg(coalesce(s.completed_at, p_now) order by i.ord)
      into words, times
      from unnest(p_runs, p_receipts, p_names) with ordinality as i (run, receipt, name, ord)
      left join onward.step s on s.run_id = i.run and s.name = i.name;
end
$$;
