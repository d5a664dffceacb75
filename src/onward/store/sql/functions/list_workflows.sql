-- How many runs each workflow has, by status. Called by: clients. Reads only.
create or replace function onward.list_workflows(p_tenant text)
returns table (workflow text, running bigint, completed bigint, failed bigint, cancelled bigint)
language sql stable as $$
    select r.workflow, count(*) filter (where x.status is null), count(*) filter (where x.status = 'completed'),
           count(*) filter (where x.status = 'failed'), count(*) filter (where x.status = 'cancelled')
      from onward.run r left join onward.run_result x on x.run_id = r.run_id
     where r.tenant = p_tenant group by 1 order by 1
$$;
