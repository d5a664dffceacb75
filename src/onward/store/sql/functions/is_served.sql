-- Does a live worker serve this version (null: any version) of a workflow? Called by: describe, why. Reads only.
create or replace function onward.is_served(p_workflow text, p_version integer) returns boolean
language sql volatile as $$
    select exists (select 1 from onward.serves s join onward.worker w using (worker_id)
                    where s.workflow = p_workflow and (p_version is null or s.version = p_version)
                      and w.lease_until > onward.now())
$$;
