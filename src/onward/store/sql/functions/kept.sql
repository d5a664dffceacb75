-- How long a run is kept once it has ended, by its retention. One that no worker ever took has the default of @workflow.
-- Called by: whatever ends runs.
create or replace function onward.kept(p_retention interval) returns interval
language sql immutable as $$
    select coalesce(p_retention, interval '30 days')
$$;
