-- Fails runs that took their worker with them five times without progress.
-- Called by: bury, which holds the runs' message locks. Locks: their parents' messages, skipping locked, because waiting
-- for them could be out of order; those that were skipped are made due by a later sweep of `wake_parents`.
create or replace function onward.fail_poison(p_runs uuid[], p_now timestamptz) returns void
language plpgsql as $$
begin
    insert into onward.run_result (run_id, status, error, completed_at, expires_at)
    select id, 'failed', convert_to(json_build_object('type', 'PoisonRun', 'message',
               'its worker died five times while this run was executing a step, the last time with nothing else '
               'executing: look for what kills the process (memory, a native crash, os._exit), then rerun it'
           )::text, 'utf8'), p_now, p_now + onward.kept(id)
      from unnest(p_runs) as id;
    delete from onward.message where msg_id = any (p_runs);
    delete from onward.pending where run_id = any (p_runs);
    delete from onward.signal where run_id = any (p_runs);
    update onward.message set visible_at = p_now where msg_id in (
        select m.msg_id from onward.message m join onward.run r on r.parent = m.msg_id
         where r.run_id = any (p_runs) for update of m skip locked);
    perform onward.announce(p_runs, true);
end
$$;
