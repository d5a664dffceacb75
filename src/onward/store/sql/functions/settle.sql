-- Journals what the runs' waits have been given: signals, children's ends, deadlines that passed.
--
-- Called by: claim and commit_asks, internal.
-- Locks: none of its own. The caller holds the runs' message locks, took them in an earlier statement, and is
--   the runs' only writer of pending, signal and waits' journal rows while it holds them.
-- One signal a run and call, and nothing else for that run: the body may give up its other waits once it gets the
--   first (a race), and a signal that was journalled for a wait that is given up is lost. What is left is settled by
--   the next ask, made after the body has reacted (model: "a settle takes two signals", "... deadlines first").
-- Where there is no signal: ended children, then deadlines by time, so that of two timers that passed together the
--   earlier one wins a race. Nothing is lost there when the body gives the other up.
-- A run with a signal that its worker has to read first (`undecided`) is left as it is: an older signal goes first.
-- Twice: the second call finds the pendings gone.
create or replace function onward.settle(p_runs uuid[], p_now timestamptz) returns void
language plpgsql as $$
declare
    v_runs  uuid[] := p_runs;   -- runs for which every signal can be judged here
    v_wait  record;
    v_quiet uuid[];   -- runs without a signal that answers
begin
    if not exists (select 1 from onward.pending where run_id = any (p_runs)) then
        return;
    end if;

    delete from onward.pending p using onward.step s
     where p.run_id = any (p_runs) and s.run_id = p.run_id and s.name = p.name;

    if exists (select 1 from onward.signal where run_id = any (p_runs) and search is null and not taken) then
        v_runs := array(select id from unnest(p_runs) as id where not exists (select 1 from onward.undecided(id)));
    end if;

    v_quiet := v_runs;
    for v_wait in
        select distinct on (p.run_id) p.run_id, p.name, p.kind, p.since, s.signal_id, s.payload
          from onward.pending p
          join onward.signal s on s.run_id = p.run_id and s.event = p.event and not s.taken
                              and onward.fits(p.match, s.search, s.fits)
         where p.run_id = any (v_runs) and p.event is not null
         order by p.run_id, p.seq, s.seq
    loop
        insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at)
        values (v_wait.run_id, v_wait.name, v_wait.kind, v_wait.payload, 1, 0, v_wait.since, p_now);
        update onward.signal set taken = true where signal_id = v_wait.signal_id;
        delete from onward.pending where run_id = v_wait.run_id and name = v_wait.name;
        v_quiet := array_remove(v_quiet, v_wait.run_id);
    end loop;

    with ended as (
        delete from onward.pending p using onward.run_result r
         where p.run_id = any (v_quiet) and p.kind = 'invoke' and r.run_id = p.child
        returning p.run_id, p.name, p.since, p.child, r.status, r.output, r.error, r.completed_at),
    pointing as (       -- what is journalled here may lie with the child, and outlives it there
        insert into onward.borrowed (owner, borrower)
        select child, run_id from ended where output is not null and onward.is_pointer(output)
        on conflict do nothing)
    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select run_id, name, 'invoke', output,
           case status when 'failed' then error
                       when 'cancelled' then convert_to(json_build_object('type', 'RunCancelled',
                           'message', format('the invoked run %s was cancelled', child))::text, 'utf8') end,
           1, 0, since, p_now
      from ended order by completed_at;

    with passed as (
        delete from onward.pending p
         where p.run_id = any (v_quiet) and p.kind in ('sleep', 'wait', 'batch') and p.deadline <= p_now
        returning p.*)
    insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at)
    select run_id, name, kind, 'null', 1, 0, since, p_now from passed order by deadline, seq;
end
$$;
