-- How many of these durations fall into each bucket. Called by: count_ends.
create or replace function onward.bucketed(p_seconds float8[]) returns bigint[]
language sql immutable as $$
    select array_agg(coalesce(n, 0) order by bucket)
      from generate_series(0, cardinality(onward.buckets())) as bucket
      left join (select width_bucket(s, onward.buckets()) as bucket, count(*) as n
                   from unnest(p_seconds) as s group by 1) found using (bucket)
$$;
