-- Pauses or resumes a run. A flag of its own: as a far visible_at a pause would be undone by a signal, and
-- would undo a deadline. A resume also tries a parked run again.
-- Called by: clients. Locks: the run's message. Twice: the flag is set. False: the run has ended or is unknown.
create or replace function onward.set_paused(p_tenant text, p_run uuid, p_paused boolean) returns boolean
language plpgsql as $$
begin
    perform 1 from onward.message where msg_id = p_run and tenant = p_tenant for update;
    if not found then
        return false;
    end if;
    update onward.message
       set paused = p_paused,
           visible_at = case when not p_paused and reason is not null then onward.now() else visible_at end
     where msg_id = p_run;
    perform pg_notify('onward_work', case when p_paused then 'pause' else '' end);
    return true;
end
$$;
