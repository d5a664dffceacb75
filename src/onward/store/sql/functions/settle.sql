-- Journals what the runs' waits have been given: signals, children's ends, deadlines that passed.
--
-- Called by: claim and commit (register, suspend), internal.
-- Locks: none of its own. The caller holds the runs' message locks, took them in an earlier statement, and is
--   the runs' only writer of pending, signal and waits' journal rows while it holds them.
-- Order: of the journal rows that one call makes: signals by order of registration, then children by their
--   end, then deadlines by time, so that of two timers that passed together the earlier one wins a race.
-- Twice: the second call finds the pendings gone.
create or replace function onward.settle(p_runs uuid[], p_now timestamptz) returns void
language plpgsql as $$
declare
    v_wait   onward.pending;
    v_signal onward.signal;
begin
    if not exists (select 1 from onward.pending where run_id = any (p_runs)) then
        return;
    end if;

    delete from onward.pending p using onward.step s
     where p.run_id = any (p_runs) and s.run_id = p.run_id and s.name = p.name;

    for v_wait in
        select p.* from onward.pending p
         where p.run_id = any (p_runs) and p.event is not null
           and exists (select 1 from onward.signal s
                        where s.run_id = p.run_id and s.event = p.event and not s.taken)
         order by p.run_id, p.seq
    loop
        select s.* into v_signal from onward.signal s
         where s.run_id = v_wait.run_id and s.event = v_wait.event and not s.taken
           and (v_wait.match is null or s.search @> v_wait.match)
         order by s.seq limit 1;
        continue when not found;
        insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at)
        values (v_wait.run_id, v_wait.name, v_wait.kind, v_signal.payload, 1, 0, v_wait.since, p_now);
        update onward.signal set taken = true where signal_id = v_signal.signal_id;
        delete from onward.pending where run_id = v_wait.run_id and name = v_wait.name;
    end loop;

    with ended as (
        delete from onward.pending p using onward.run_result r
         where p.run_id = any (p_runs) and p.kind = 'invoke' and r.run_id = p.child
        returning p.run_id, p.name, p.since, p.child, r.status, r.output, r.error, r.completed_at)
    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select run_id, name, 'invoke', output,
           case status when 'failed' then error
                       when 'cancelled' then convert_to(json_build_object('type', 'RunCancelled',
                           'message', format('the invoked run %s was cancelled', child))::text, 'utf8') end,
           1, 0, since, p_now
      from ended order by completed_at;

    with passed as (
        delete from onward.pending p
         where p.run_id = any (p_runs) and p.kind in ('sleep', 'wait', 'batch') and p.deadline <= p_now
        returning p.*)
    insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at)
    select run_id, name, kind, 'null', 1, 0, since, p_now from passed order by deadline, seq;
end
$$;
