-- Folds rows of `tally` into totals; answers how many. One at a time does this; who comes second does nothing.
-- A workflow has at most 200 different steps (and events) in the totals: names that are made up at run time would
-- else fill them. What comes later counts as `(other)`.
-- Called by: workers and servers, every few seconds. Locks: an advisory lock, then rows of `tally`, which nobody else
-- changes. Twice: the rows are gone.
create or replace function onward.fold_tally(p_limit integer) returns bigint
language plpgsql as $$
declare
    v_folded bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('onward.fold_tally', 0)) then
        return 0;
    end if;
    with gone as (
        delete from onward.tally where seq in (select seq from onward.tally order by seq limit p_limit)
        returning *),
    summed as (
        select tenant, workflow, metric::text, label, sum(count) as count, sum(seconds) as seconds,
               onward.sum_buckets(onward.buckets_of(metric, count, seconds, buckets)) as buckets, count(*) as folded
          from gone group by 1, 2, 3, 4),
    ranked as (
        select s.*, t.label is not null as known,
               (select count(*) from onward.total o
                 where o.tenant = s.tenant and o.workflow = s.workflow and o.metric = s.metric)
               + row_number() over (partition by s.tenant, s.workflow, s.metric, t.label is null order by s.label) as nth
          from summed s
          left join onward.total t using (tenant, workflow, metric, label)),
    bounded as (
        select tenant, workflow, metric,
               case when known or nth <= 200 or metric not in ('step', 'retry', 'signal') then label
                    else '(other)' end as label,
               sum(count) as count, sum(seconds) as seconds, onward.sum_buckets(buckets) as buckets
          from ranked group by 1, 2, 3, 4),
    written as (
        insert into onward.total as t (tenant, workflow, metric, label, count, seconds, buckets)
        select * from bounded order by 1, 2, 3, 4
        on conflict (tenant, workflow, metric, label) do update
           set count = t.count + excluded.count, seconds = t.seconds + excluded.seconds,
               buckets = onward.add_buckets(t.buckets, excluded.buckets))
    select coalesce(sum(folded), 0) into v_folded from summed;
    return v_folded;
end
$$;
