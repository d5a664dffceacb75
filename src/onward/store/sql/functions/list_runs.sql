-- A page of runs, newest first, stable while rows arrive: the cursor is the last row's start and id.
-- Called by: clients. Reads only. p_input: any of these patterns is contained in the input.
create or replace function onward.list_runs(
    p_tenant text, p_workflow text, p_status text, p_since timestamptz, p_until timestamptz, p_input text[],
    p_after_time timestamptz, p_after_id uuid, p_limit integer)
returns uuid[]
language sql stable as $$
    select array_agg(page.run_id) from (
        select r.run_id from onward.run r
         where r.tenant = p_tenant
           and (p_workflow is null or r.workflow = p_workflow)
           and (p_since is null or r.started_at >= p_since)
           and (p_until is null or r.started_at < p_until)
           and (p_after_id is null or (r.started_at, r.run_id) < (p_after_time, p_after_id))
           and (p_status is null
                or (p_status = 'running'
                    and not exists (select 1 from onward.run_result x where x.run_id = r.run_id))
                or exists (select 1 from onward.run_result x where x.run_id = r.run_id and x.status = p_status))
           and (p_input is null
                or exists (select 1 from onward.run_input i
                            where i.run_id = r.run_id and i.search @> any (p_input::jsonb[])))
         order by r.started_at desc, r.run_id desc
         limit p_limit) page
$$;
