-- Fails runs that took their worker with them five times without progress.
-- Called by: bury, which holds the runs' message locks. Their parents are made due by a later sweep of
-- `wake_parents`: locking them here could be out of order.
create or replace function onward.fail_poison(p_runs uuid[], p_now timestamptz) returns void
language plpgsql as $$
begin
    insert into onward.run_result (run_id, status, error, completed_at)
    select id, 'failed', convert_to(json_build_object('type', 'PoisonRun', 'message',
               'its worker died five times while this run was executing a step, the last time with nothing else '
               'executing: look for what kills the process (memory, a native crash, os._exit), then rerun it'
           )::text, 'utf8'), p_now
      from unnest(p_runs) as id;
    delete from onward.message where msg_id = any (p_runs);
    delete from onward.pending where run_id = any (p_runs);
    delete from onward.signal where run_id = any (p_runs);
    perform onward.announce(p_runs, true);
end
$$;
