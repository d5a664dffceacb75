-- Wakes whoever waits for these runs' results, and workers where an ended run was invoked by another.
-- Called by: workers, after the commit that ended them and outside its transaction: a NOTIFY takes a lock that
-- all committing sessions share; and commit_end, cancel, reap. A waiter that is just writing its row is missed; it
-- looks again soon, and every second, so nothing here has to wait for the disk. Who was told waits no more: the row goes.
-- Locks: these waits, by run.
create or replace function onward.announce(p_runs uuid[], p_work boolean) returns void
language plpgsql as $$
declare
    v_told bigint;
begin
    perform 1 from onward.awaited where run_id = any (p_runs) order by run_id, channel for update;
    with told as (delete from onward.awaited where run_id = any (p_runs) returning run_id, channel)
    select count(pg_notify(channel, run_id::text)) into v_told from told;
    if p_work then
        perform pg_notify('onward_work', 'signal');
    end if;
end
$$;
