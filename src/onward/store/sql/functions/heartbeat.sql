-- Extends a worker's lease. False: it was declared dead, and must drop everything and register anew.
-- Called by: workers, every half second. One row whatever the worker owns. Touches no key column, so that a
-- claim's key share does not wait for it.
create or replace function onward.heartbeat(p_worker bigint) returns boolean
language plpgsql as $$
declare
    v_now timestamptz := onward.now();
begin
    update onward.worker set lease_until = v_now + lease, beat_at = v_now where worker_id = p_worker;
    return found;
end
$$;
