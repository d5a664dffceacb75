-- Takes the lock that tells a worker's death: it goes with the session. Needs a direct connection, and is
-- called on the one that the worker keeps. False: somebody (a reaper that looks) has it just now, try again.
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
