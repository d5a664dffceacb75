-- How many runs each workflow has, by status: what was started, ended and removed, so a million runs cost nothing.
-- Called by: clients. Reads only, in one statement: what is being folded is seen once.
create or replace function onward.list_workflows(p_tenant text)
returns table (workflow text, running bigint, completed bigint, failed bigint, cancelled bigint)
language sql stable as $$
    with counted as (
        select workflow, metric::text, label, count from onward.total
         where tenant = p_tenant and metric in ('started', 'ended', 'removed')
        union all
        select workflow, metric::text, label, count from onward.tally
         where tenant = p_tenant and metric in ('started', 'ended', 'removed')),
    summed as (
        select workflow,
               coalesce(sum(count) filter (where metric = 'started'), 0)
               - coalesce(sum(count) filter (where metric = 'ended'), 0) as running,
               coalesce(sum(case metric when 'ended' then count else -count end)
                        filter (where label = 'completed'), 0) as completed,
               coalesce(sum(case metric when 'ended' then count else -count end)
                        filter (where label = 'failed'), 0) as failed,
               coalesce(sum(case metric when 'ended' then count else -count end)
                        filter (where label = 'cancelled'), 0) as cancelled
          from counted group by workflow)
    select workflow, running::bigint, completed::bigint, failed::bigint, cancelled::bigint
      from summed where running + completed + failed + cancelled > 0 order by workflow
$$;
