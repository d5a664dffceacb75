-- Takes the lock that tells a worker's death: it goes with the session.
-- Called by: workers, on the connection that they keep; it has to be a direct one. False: somebody (a reaper that looks) has it just now, try again.
create or replace function onward.hold_session(p_worker bigint) returns boolean
language plpgsql as $$
begin
    if not pg_try_advisory_lock(onward.session_key(p_worker)) then
        return false;
    end if;
    update onward.worker set holds_lock = true where worker_id = p_worker and not holds_lock;
    return true;
end
$$;
