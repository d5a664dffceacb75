-- Starts runs: the rows, the input, the message. One notify a call.
--
-- Called by: clients, and workers for `ctx.step.start` and `invoke` (then with p_parents).
-- Locks: the parents' messages by id, so that a cancelled parent gets no child behind the canceller's back;
--   then unique keys in the order (key, id): two calls with the same keys wait for each other, never in a ring.
-- Twice: the same id, or the same key, answers the run that is there. The look-up is a statement of its own:
--   inside the insert's statement its snapshot would not hold the run that the insert waited for.
-- Answers: one row an item, in order: the run's id (its own: created here; another: the key's; null: the parent
--   has ended) and whether the inputs are the same.
create or replace function onward.start_runs(
    p_ids uuid[], p_tenant text, p_workflow text, p_versions integer[], p_keys text[], p_hashes bytea[],
    p_inputs bytea[], p_searches text[], p_retentions float8[], p_delays float8[], p_parent uuid,
    p_call text, p_rerun_of uuid default null, p_traces text[] default null)
returns table (run_id uuid, same boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now       timestamptz := onward.now();
    v_version   integer;
    v_created   bigint;
begin
    if p_parent is not null then
        perform 1 from onward.message where msg_id = p_parent for share;
        if not found then
            return query select null::uuid, false from unnest(p_ids);
            return;
        end if;
    end if;

    -- a name without a version: the highest that a live worker serves, else open until the first claim; without a
    -- retention: the version's, where a live worker tells it, else the default of @workflow
    if array_position(p_versions, null) is not null then
        select s.version into v_version
          from onward.serves s join onward.worker w using (worker_id)
         where s.workflow = p_workflow and w.lease_until > v_now
         order by s.version desc limit 1;
    end if;

    with item as (
        select i.*, coalesce(i.version, v_version) as bound
          from unnest(p_ids, p_versions, p_keys, p_hashes, p_inputs, p_searches, p_retentions, p_delays, p_traces)
               with ordinality as i (id, version, key, hash, input, search, retention, delay, trace, ord)),
    inserted as (
        insert into onward.run as r (run_id, tenant, workflow, version, idempotency_key, input_hash,
                                     retention, parent, rerun_of, started_at, trace)
        select id, p_tenant, p_workflow, bound, key, hash,
               onward.retained(coalesce(make_interval(secs => retention), case when bound is not null then coalesce(
                   (select s.retention from onward.serves s join onward.worker w using (worker_id)
                     where s.workflow = p_workflow and s.version = bound and w.lease_until > v_now limit 1),
                   interval '30 days') end)),
               case p_call when 'invoke' then p_parent end, p_rerun_of, v_now, trace
          from item order by key, id
        on conflict do nothing
        returning r.run_id),
    inputs as (
        insert into onward.run_input (run_id, input, search)
        select id, input, search::jsonb from item join inserted i on i.run_id = item.id),
    running as (
        insert into onward.running (tenant, workflow, started_at, run_id)
        select p_tenant, p_workflow, v_now, i.run_id from inserted i),
    messages as (
        insert into onward.message (msg_id, tenant, queue, version, visible_at)
        select id, p_tenant, '__wf_' || p_workflow, coalesce(bound, 0),
               v_now + make_interval(secs => coalesce(delay, 0))
          from item join inserted i on i.run_id = item.id)
    select count(*) into v_created from inserted;

    if v_created > 0 then
        insert into onward.tally (tenant, workflow, metric, label, count)
        values (p_tenant, p_workflow, 'started', '', v_created);
        perform pg_notify('onward_work', '');
    end if;

    return query
        select r.run_id, coalesce(r.input_hash = i.hash, false)
          from unnest(p_ids, p_keys, p_hashes) with ordinality as i (id, key, hash, ord)
          left join lateral (
                select x.run_id, x.input_hash from onward.run x where x.run_id = i.id and x.tenant = p_tenant
                union all
                select x.run_id, x.input_hash from onward.run x
                 where x.tenant = p_tenant and x.workflow = p_workflow and x.idempotency_key = i.key
                limit 1) r on true
         order by i.ord;
end
$$;
