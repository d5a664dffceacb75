-- The buckets of a row of counts. A run that ends alone leaves them out, for its latency: its own duration tells them.
-- Called by: fold_tally, list_tallies.
create or replace function onward.buckets_of(
    p_metric text, p_count bigint, p_seconds float8, p_buckets bigint[]) returns bigint[]
language sql immutable as $$
    select case when p_buckets is null and p_metric = 'ended' and p_count = 1
                then onward.bucketed(array[p_seconds]) else p_buckets end
$$;
