-- Publishes to a topic: every subscription that its name reaches gets the body, or none does: one transaction.
--
-- Called by: clients. Locks: the idempotency key (a second publication with it waits, and finds the first), then those of
--   send_messages and start_runs, by kind and target. One notify a queue, and one for workers and deliverers each.
-- p_hash: of the body; the same key with another body is a `conflict`. p_inputs: where the body lies outside, its copy as
--   the input of each run in p_runs (an object of its own, kept as long as the run). A run that is missing there,
--   because somebody has subscribed meanwhile: `again`, and nothing was done.
-- Twice: with a key, `known`, and how many it reached. Without one, ids are derived from p_id: whatever is still there is not made again.
create or replace function onward.publish(
    p_tenant text, p_topic text, p_id uuid, p_key text, p_hash bytea, p_body bytea, p_search text,
    p_input_search text, p_runs uuid[], p_inputs bytea[], out outcome text, out delivered integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now     timestamptz := onward.now();
    v_kinds   text[];
    v_targets text[];
    v_subs    uuid[];
    v_ids     uuid[];
    v_queues  text[];
    v_queue_ids uuid[];
    v_run     record;
begin
    select array_agg(s.kind), array_agg(s.target), array_agg(s.subscription_id), array_agg(s.id),
           array_agg(s.target) filter (where s.kind = 'queue'), array_agg(s.id) filter (where s.kind = 'queue')
      into v_kinds, v_targets, v_subs, v_ids, v_queues, v_queue_ids
      from onward.list_subscribed(p_tenant, p_topic, p_id) s;
    delivered := coalesce(cardinality(v_ids), 0);
    if p_runs is not null and exists (
        select 1 from unnest(v_kinds, v_ids) as i (kind, id) where i.kind = 'workflow' and i.id <> all (p_runs))
    then
        outcome := 'again';
        return;
    end if;

    if p_key is not null then
        insert into onward.publication (tenant, topic, key, hash, delivered, published_at)
        values (p_tenant, p_topic, p_key, p_hash, publish.delivered, v_now)
        on conflict do nothing;
        if not found then
            select case when p.hash = p_hash then 'known' else 'conflict' end, p.delivered
              into publish.outcome, publish.delivered
              from onward.publication p where p.tenant = p_tenant and p.topic = p_topic and p.key = p_key;
            return;
        end if;
    end if;

    if v_queues is not null then
        perform onward.send_messages(
            p_tenant, v_queues, v_queue_ids, array_fill(null::text, array[cardinality(v_queues)]),
            array_fill(null::float8, array[cardinality(v_queues)]), array_fill(p_body, array[cardinality(v_queues)]),
            array_fill(p_search, array[cardinality(v_queues)]),
            array_fill(null::bytea, array[cardinality(v_queues)]));
    end if;
    insert into onward.delivery (delivery_id, tenant, subscription_id, topic, body, search, visible_at, created_at)
    select i.id, p_tenant, i.sub, p_topic, p_body, p_search::jsonb, v_now, v_now
      from unnest(v_kinds, v_subs, v_ids) as i (kind, sub, id) where i.kind = 'http'
    on conflict do nothing;
    if found then
        perform pg_notify('onward_delivery', '');
    end if;
    for v_run in
        select i.target as workflow, array_agg(i.id) as ids, array_agg(coalesce(r.input, p_body)) as inputs
          from unnest(v_kinds, v_targets, v_ids) as i (kind, target, id)
          left join unnest(p_runs, p_inputs) as r (id, input) on r.id = i.id
         where i.kind = 'workflow' group by i.target order by i.target
    loop
        perform onward.start_runs(
            v_run.ids, p_tenant, v_run.workflow, array_fill(null::integer, array[cardinality(v_run.ids)]),
            array_fill(null::text, array[cardinality(v_run.ids)]), array_fill(p_hash, array[cardinality(v_run.ids)]),
            v_run.inputs, array_fill(p_input_search, array[cardinality(v_run.ids)]),
            array_fill(null::float8, array[cardinality(v_run.ids)]),
            array_fill(null::float8, array[cardinality(v_run.ids)]), null, null);
    end loop;
    outcome := 'done';
end
$$;
