-- Fails runs that took their worker with them five times without progress.
-- Called by: bury, which holds the runs' message locks. Locks: their parents' messages, skipping locked, because waiting
-- for them could be out of order; those that were skipped are made due by a later sweep of `wake_parents`.
create or replace function onward.fail_poison(p_runs uuid[], p_now timestamptz) returns void
language plpgsql as $$
begin
    with ended as (
        insert into onward.run_result (run_id, status, error, completed_at, expires_at, tenant, workflow, started_at)
        select r.run_id, 'failed', convert_to(json_build_object('type', 'PoisonRun', 'message',
                   'its worker died five times while this run was executing a step, the last time with nothing else '
                   'executing: look for what kills the process (memory, a native crash, os._exit), then rerun it'
               )::text, 'utf8'), p_now, p_now + onward.kept(r.retention), r.tenant, r.workflow, r.started_at
          from onward.run r where r.run_id = any (p_runs)
        returning tenant, workflow, started_at, run_id)
    delete from onward.running g using ended e
     where g.tenant = e.tenant and g.workflow = e.workflow and g.started_at = e.started_at and g.run_id = e.run_id;
    delete from onward.message where msg_id = any (p_runs);
    delete from onward.pending where run_id = any (p_runs);
    delete from onward.signal where run_id = any (p_runs);
    update onward.message set visible_at = p_now where msg_id in (
        select m.msg_id from onward.message m join onward.run r on r.parent = m.msg_id
         where r.run_id = any (p_runs) for update of m skip locked);
    perform onward.count_ends(p_runs);
    perform onward.announce(p_runs, true);
end
$$;
