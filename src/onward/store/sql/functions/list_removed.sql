-- Removed runs whose objects are to be deleted now, the oldest first. Those at infinity have objects that a rerun or a
-- parent still points to; remove_expired makes them due again when one of these goes.
-- Called by: retention. Reads only.
create or replace function onward.list_removed(p_limit integer)
returns table (run_id uuid, tenant text, workflow text, removed_at timestamptz)
language sql volatile as $$
    select d.run_id, d.tenant, d.workflow, d.removed_at from onward.removed d
     where d.removed_at <= onward.now() order by d.removed_at limit p_limit
$$;
