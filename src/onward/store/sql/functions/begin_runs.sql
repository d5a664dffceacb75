-- `start_runs` that also tells which runs it created, and what they have become: where callers choose ids, the id alone
-- does not say, and the server answers with the run. What was there already is for `describe`.
--
-- Called by: the server. Locks, idempotence and answer: those of start_runs; `created` is false for what was there, and
--   for the second of two items of one call with the same id. The look at the rows is a statement of its own: that of
--   the start would not see what it inserts.
create or replace function onward.begin_runs(
    p_ids uuid[], p_tenant text, p_workflow text, p_versions integer[], p_keys text[], p_hashes bytea[],
    p_inputs bytea[], p_searches text[], p_retentions float8[], p_delays float8[], p_traces text[] default null)
returns table (run_id uuid, same boolean, created boolean, version integer, retention interval,
               started_at timestamptz, served boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_runs     uuid[];
    v_same     boolean[];
    v_versions integer[];
    v_served   boolean[];
begin
    select array_agg(s.run_id order by s.ord), array_agg(s.same order by s.ord) into v_runs, v_same
      from onward.start_runs(p_ids, p_tenant, p_workflow, p_versions, p_keys, p_hashes, p_inputs, p_searches,
                             p_retentions, p_delays, null, null, null, p_traces) with ordinality s (run_id, same, ord);
    select array_agg(v.version), array_agg(onward.is_served(p_workflow, v.version)) into v_versions, v_served
      from (select distinct r.version from unnest(v_runs) as i (run) join onward.run r on r.run_id = i.run) v;
    return query
        select i.run, i.same,
               coalesce(i.run = i.id and r.xmin = pg_current_xact_id_if_assigned()::xid
                        and row_number() over (partition by i.id order by i.ord) = 1, false),
               r.version, r.retention, r.started_at, v_served[array_position(v_versions, r.version)]
          from unnest(v_runs, v_same, p_ids) with ordinality as i (run, same, id, ord)
          left join onward.run r on r.run_id = i.run
         order by i.ord;
end
$$;
