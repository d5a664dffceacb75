-- Makes a suspended run due now. Called by: a worker whose cached coroutine went on by itself (it waited for
-- something that is no step) and needs its run back. Locks: the run's message. Twice: harmless.
create or replace function onward.poke(p_run uuid) returns void
language plpgsql as $$
begin
    perform 1 from onward.message where msg_id = p_run for update;
    update onward.message set visible_at = onward.now() where msg_id = p_run;
end
$$;
