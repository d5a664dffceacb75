-- The subscriptions of a tenant, or of one pattern, without their secrets. `waiting`: how many deliveries are to be made;
-- `trouble`: why the last attempt of one of them failed. Called by: clients. Reads only.
create or replace function onward.list_subscriptions(p_tenant text, p_pattern text)
returns table (
    subscription_id uuid, pattern text, kind text, target text, created_at timestamptz, waiting bigint, trouble text)
language sql stable as $$
    select s.subscription_id, s.pattern, s.kind, s.target, s.created_at, d.waiting, d.trouble
      from onward.subscription s
     cross join lateral (
            select count(*) as waiting, max(d.error) as trouble
              from onward.delivery d where s.kind = 'http' and d.subscription_id = s.subscription_id) d
     where s.tenant = p_tenant and (p_pattern is null or s.pattern = p_pattern)
     order by s.pattern, s.kind, s.target
$$;
