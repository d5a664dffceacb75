-- The paths of all journalled steps of some runs. Called by: payload sweep, before list_needed. Reads only.
create or replace function onward.list_paths(p_runs uuid[]) returns table (run_id uuid, name text)
language sql stable as $$
    select s.run_id, s.name from onward.step s where s.run_id = any (p_runs)
$$;
