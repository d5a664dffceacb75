-- Hands out deliveries that are due: at most p_max, and at most p_each of one subscription, so that one slow address does not
-- keep the others waiting. Deliveries whose subscription is gone are deleted.
--
-- Called by: deliverers. Locks: deliveries, skipping locked. Whoever gets one has it for p_visibility seconds; a deliverer
--   that dies leaves it to the next one. p_full: subscriptions that the caller has enough of.
-- `at`: the true time in seconds since 1970, for the signature: a clock that a test has moved is of no use to a receiver.
-- `due_in`: of a row without an id, in how many seconds the next delivery is due.
-- Twice: others. Those of an answer that was lost come back.
create or replace function onward.claim_deliveries(p_max integer, p_each integer, p_full uuid[], p_visibility float8)
returns table (
    delivery_id uuid, tenant text, subscription_id uuid, topic text, url text, secret text, body bytea,
    attempts integer, receipt bigint, at float8, due_in float8)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now  timestamptz := onward.now();
    v_subs uuid[];
    v_ids  uuid[];
begin
    with recursive busy (id) as (      -- the subscriptions that have deliveries, one step in the index each
        (select d.subscription_id from onward.delivery d order by d.subscription_id limit 1)
        union all
        select (select d.subscription_id from onward.delivery d where d.subscription_id > b.id
                 order by d.subscription_id limit 1)
          from busy b where b.id is not null)
    select array_agg(b.id order by random()) into v_subs from busy b where b.id is not null;

    select array_agg(due.delivery_id) into v_ids
      from (select d.delivery_id from unnest(v_subs) as s (id)
             cross join lateral (
                    select x.delivery_id from onward.delivery x
                     where x.subscription_id = s.id and x.visible_at <= v_now
                     order by x.visible_at limit p_each for update skip locked) d
             where s.id <> all (p_full)
             limit p_max) due;
    delete from onward.delivery d
     where d.delivery_id = any (v_ids)
       and not exists (select 1 from onward.subscription s where s.subscription_id = d.subscription_id);
    return query
        update onward.delivery d
           set visible_at = v_now + make_interval(secs => p_visibility), receipt = d.receipt + 1,
               attempts = d.attempts + 1
          from onward.subscription s
         where d.delivery_id = any (v_ids) and s.subscription_id = d.subscription_id
        returning d.delivery_id, d.tenant, d.subscription_id, d.topic, s.target, s.secret, d.body, d.attempts,
                  d.receipt, extract(epoch from clock_timestamp())::float8, null::float8;
    return query
        select null::uuid, null::text, null::uuid, null::text, null::text, null::text, null::bytea, null::integer,
               null::bigint, null::float8, extract(epoch from min(first.visible_at) - v_now)::float8
          from unnest(v_subs) as s (id)
         cross join lateral (
                select x.visible_at from onward.delivery x
                 where x.subscription_id = s.id order by x.visible_at limit 1) first
         where s.id <> all (p_full);
end
$$;
