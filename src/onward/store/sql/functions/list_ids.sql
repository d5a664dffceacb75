-- The ids of all runs, of one tenant or of all (null), page by page. Called by: payload verify. Reads only.
create or replace function onward.list_ids(p_tenant text, p_after uuid, p_limit integer) returns setof uuid
language sql stable as $$
    select r.run_id from onward.run r
     where (p_after is null or r.run_id > p_after) and (p_tenant is null or r.tenant = p_tenant)
     order by r.run_id limit p_limit
$$;
