-- Wakes whoever waits for these runs' results, and workers where an ended run was invoked by another.
-- Called by: workers, after the commit that ended them and outside its transaction: a NOTIFY takes a lock that
-- all committing sessions share; and commit_end, cancel, reap. A waiter that is just writing its row is missed; it
-- looks again soon, and every second, so nothing here has to wait for the disk.
create or replace function onward.announce(p_runs uuid[], p_work boolean) returns void
language plpgsql as $$
begin
    perform pg_notify(a.channel, a.run_id::text) from onward.awaited a where a.run_id = any (p_runs);
    if p_work then
        perform pg_notify('onward_work', 'signal');
    end if;
end
$$;
