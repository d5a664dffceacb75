-- What was counted, of all tenants together, or of one. Called by: metrics. Reads only, in one statement: what is being
-- folded is seen once.
create or replace function onward.list_tallies(p_tenant text default null)
returns table (workflow text, metric text, label text, count bigint, seconds float8, buckets bigint[])
language sql stable as $$
    select workflow, metric::text, label, sum(count)::bigint, sum(seconds),
           onward.sum_buckets(onward.buckets_of(metric, count, seconds, buckets))
      from (select workflow, metric, label, count, seconds, buckets from onward.total
             where p_tenant is null or tenant = p_tenant
            union all
            select workflow, metric, label, count, seconds, buckets from onward.tally
             where p_tenant is null or tenant = p_tenant) counted
     group by 1, 2, 3 order by 1, 2, 3
$$;
