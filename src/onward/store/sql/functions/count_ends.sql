-- Counts runs that have just ended, by workflow and status, and how long they took.
-- Called by: whatever ends runs, in its transaction, once their results are written. Locks: none.
create or replace function onward.count_ends(p_runs uuid[]) returns void
language plpgsql as $$
begin
    insert into onward.tally (tenant, workflow, metric, label, count, seconds, buckets)
    select tenant, workflow, 'ended', status, count(*), sum(seconds), onward.bucketed(array_agg(seconds))
      from (select x.tenant, x.workflow, x.status,
                   extract(epoch from x.completed_at - x.started_at)::float8 as seconds
              from unnest(p_runs) as i (id)
             cross join lateral (select * from onward.run_result x where x.run_id = i.id offset 0) x) ended
     group by tenant, workflow, status;
end
$$;
