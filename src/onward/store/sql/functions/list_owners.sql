-- Those of some runs that are there, of all tenants. `is_over`: nothing of it is journalled any more; a cancelled run is
-- given ten minutes, for a batch that was in flight (see cancel).
-- Called by: payload sweep, before list_paths and list_needed. Reads only.
create or replace function onward.list_owners(p_runs uuid[])
returns table (run_id uuid, tenant text, workflow text, is_over boolean)
language sql volatile as $$
    select r.run_id, r.tenant, r.workflow,
           x.run_id is not null
           and (x.status <> 'cancelled' or x.completed_at <= onward.now() - interval '10 minutes')
      from onward.run r left join onward.run_result x on x.run_id = r.run_id
     where r.run_id = any (p_runs)
$$;
