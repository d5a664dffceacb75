-- A page of runs by tenant, workflow, status and time, newest first. Each question is a walk of an index that has the runs
-- in this order, from the cursor on, so that a page costs its own rows wherever it lies.
--
-- Called by: list_runs. Reads only.
-- A status without a workflow is asked of each workflow, and what they answer is merged: an index less for every run to
--   pay for. Workflows are few, and found by one look-up each. Of each come a few rows; where one of them may have more,
--   the answer is whole down to its last row and no further, and the walk goes on from there.
create or replace function onward.walk_runs(
    p_tenant text, p_workflow text, p_status text, p_since timestamptz, p_until timestamptz,
    p_after_time timestamptz, p_after_id uuid, p_limit integer)
returns uuid[]
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_since timestamptz := coalesce(p_since, '-infinity');
    v_time  timestamptz := coalesce(p_until, 'infinity');     -- everything lies before this row
    v_id    uuid := '00000000-0000-0000-0000-000000000000';
    v_names text[];
    v_each  integer;                                          -- of each workflow
    v_page  uuid[];
    v_found uuid[] := '{}';
begin
    if p_after_time < v_time then
        v_time := p_after_time;
        v_id := p_after_id;
    end if;

    if p_status is null and p_workflow is null then
        return array(
            select r.run_id from onward.run r
             where r.tenant = p_tenant and r.started_at >= v_since and (r.started_at, r.run_id) < (v_time, v_id)
             order by r.started_at desc, r.run_id desc limit p_limit);
    elsif p_status is null then
        return array(
            select r.run_id from onward.run r
             where r.tenant = p_tenant and r.workflow = p_workflow
               and r.started_at >= v_since and (r.started_at, r.run_id) < (v_time, v_id)
             order by r.started_at desc, r.run_id desc limit p_limit);
    elsif p_status = 'running' and p_workflow is not null then
        return array(
            select g.run_id from onward.running g
             where g.tenant = p_tenant and g.workflow = p_workflow
               and g.started_at >= v_since and (g.started_at, g.run_id) < (v_time, v_id)
             order by g.started_at desc, g.run_id desc limit p_limit);
    elsif p_workflow is not null then
        return array(
            select x.run_id from onward.run_result x
             where x.tenant = p_tenant and x.workflow = p_workflow and x.status = p_status
               and x.started_at >= v_since and (x.started_at, x.run_id) < (v_time, v_id)
             order by x.started_at desc, x.run_id desc limit p_limit);
    end if;

    with recursive name (workflow) as (
        select '' collate "C"
        union all
        select case when p_status = 'running' then (
                    select g.workflow from onward.running g
                     where g.tenant = p_tenant and g.workflow > n.workflow order by g.workflow limit 1)
                else (
                    select x.workflow from onward.run_result x
                     where x.tenant = p_tenant and x.workflow > n.workflow order by x.workflow limit 1)
                end
          from name n where n.workflow is not null)
    select coalesce(array_agg(workflow), '{}') into v_names from name where workflow > '';
    v_each := least(p_limit, greatest(20, 2 * p_limit / greatest(1, cardinality(v_names))));
    loop
        v_page := array(
            with newest as materialized (
                select w.started_at, w.run_id, w.nth
                  from unnest(v_names) as n (workflow)
                 cross join lateral (
                        (select g.started_at, g.run_id,
                                row_number() over (order by g.started_at desc, g.run_id desc) as nth
                           from onward.running g
                          where p_status = 'running' and g.tenant = p_tenant and g.workflow = n.workflow
                            and g.started_at >= v_since and (g.started_at, g.run_id) < (v_time, v_id)
                          order by g.started_at desc, g.run_id desc limit v_each)
                        union all
                        (select x.started_at, x.run_id,
                                row_number() over (order by x.started_at desc, x.run_id desc) as nth
                           from onward.run_result x
                          where p_status <> 'running' and x.tenant = p_tenant and x.workflow = n.workflow
                            and x.status = p_status
                            and x.started_at >= v_since and (x.started_at, x.run_id) < (v_time, v_id)
                          order by x.started_at desc, x.run_id desc limit v_each)) w),
            whole as (
                select started_at, run_id from newest
                 where nth = v_each order by started_at desc, run_id desc limit 1)
            select n.run_id from newest n
             where (n.started_at, n.run_id) >= ((select w.started_at from whole w), (select w.run_id from whole w))
                or not exists (select 1 from whole)
             order by n.started_at desc, n.run_id desc limit p_limit - cardinality(v_found));
        v_found := v_found || v_page;
        exit when v_page = '{}' or cardinality(v_found) >= p_limit;
        select r.started_at, r.run_id into v_time, v_id
          from onward.run r where r.run_id = v_page[cardinality(v_page)];
    end loop;
    return v_found;
end
$$;
