-- How long a run is kept once it has ended. One that no worker ever took has the default of @workflow.
-- Called by: whatever ends runs. Reads only.
create or replace function onward.kept(p_run uuid) returns interval
language sql stable as $$
    select coalesce((select r.retention from onward.run r where r.run_id = p_run), interval '30 days')
$$;
