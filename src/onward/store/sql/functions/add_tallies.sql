-- Adds what a worker has counted in its memory: steps and retries. What it had not added when it died is not counted.
-- Called by: workers, every second or so and when they stop. Locks: none. Twice: counted twice, so it is not repeated.
create or replace function onward.add_tallies(
    p_tenants text[], p_workflows text[], p_metrics text[], p_labels text[], p_counts bigint[], p_seconds float8[],
    p_buckets text[])
returns void
language plpgsql as $$
begin
    insert into onward.tally (tenant, workflow, metric, label, count, seconds, buckets)
    select i.tenant, i.workflow, i.metric, i.label, i.count, i.seconds, i.buckets::bigint[]
      from unnest(p_tenants, p_workflows, p_metrics, p_labels, p_counts, p_seconds, p_buckets)
           as i (tenant, workflow, metric, label, count, seconds, buckets);
end
$$;
