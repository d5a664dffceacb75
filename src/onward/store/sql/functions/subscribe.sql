-- Subscribes a target to the topics of a pattern. The same target under the same pattern is there once: its id is answered,
-- and a secret that is given replaces the old one.
-- Called by: clients. Locks: the unique key. Twice: see above. `secret`: the one that was set by this call.
create or replace function onward.subscribe(
    p_tenant text, p_id uuid, p_pattern text, p_kind text, p_target text, p_secret text, p_new_secret text,
    out subscription_id uuid, out secret text, out created_at timestamptz)
language plpgsql as $$
declare
    v_words text[] := string_to_array(p_pattern, '.');
begin
    insert into onward.subscription as s
           (subscription_id, tenant, pattern, wild, first, expression, kind, target, secret, created_at)
    select p_id, p_tenant, p_pattern, v_words && array['*', '#'],
           case when v_words[1] not in ('*', '#') then v_words[1] end,
           -- against the topic with a dot behind it, so that each word brings its own
           '^' || string_agg(case w when '*' then '[^.]+\.' when '#' then '(?:[^.]+\.)*' else w || '\.' end,
                             '' order by n) || '$',
           p_kind, p_target, coalesce(p_secret, p_new_secret), onward.now()
      from unnest(v_words) with ordinality as u (w, n)
    on conflict (tenant, pattern, kind, target) do update set secret = coalesce(p_secret, s.secret)
    returning s.subscription_id, s.created_at,
              case when s.subscription_id = p_id then s.secret else p_secret end
         into subscribe.subscription_id, subscribe.created_at, subscribe.secret;
end
$$;
