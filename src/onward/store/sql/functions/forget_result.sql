-- The caller no longer waits. Called by: clients. Losing the call costs nothing: the reaper clears what is old.
create or replace function onward.forget_result(p_run uuid, p_channel text) returns void
language sql as $$
    delete from onward.awaited where run_id = p_run and channel = p_channel
$$;
