-- Waits until every batch that a worker has in flight has ended, and lets go again.
-- Called by: clients, as the second half of a cancel. Locks: the worker's lane rows.
create or replace function onward.await_lanes(p_worker bigint) returns void
language sql as $$
    select 1 from onward.lane where worker_id = p_worker order by lane for update
$$;
