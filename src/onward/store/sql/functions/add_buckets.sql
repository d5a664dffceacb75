-- Two rows of buckets as one. Called by: sum_buckets.
create or replace function onward.add_buckets(p_one bigint[], p_other bigint[]) returns bigint[]
language sql immutable as $$
    select case when p_one is null then p_other when p_other is null then p_one else
        (select array_agg(coalesce(a, 0) + coalesce(b, 0) order by ord)
           from unnest(p_one, p_other) with ordinality as i (a, b, ord)) end
$$;

-- Called by: fold_tally, list_tallies.
create or replace aggregate onward.sum_buckets(bigint[]) (sfunc = onward.add_buckets, stype = bigint[]);
