-- The subscriptions that a topic reaches. Called by: publish, and clients before they publish a body that lies outside: they
-- write it as the input of each run first. Reads only. p_id: the publication; `id`: what comes of it for the subscription
-- (message, run or delivery), the same whoever asks. It keeps the publication's time stamp, as ids.derive does.
-- core/topics.py says what a pattern means (test_the_database_matches_as_the_reference_does).
create or replace function onward.list_subscribed(p_tenant text, p_topic text, p_id uuid)
returns table (subscription_id uuid, kind text, target text, id uuid)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    return query
        select s.subscription_id, s.kind, s.target,
               encode(set_byte(set_byte(overlay(
                          sha256(uuid_send(p_id) || uuid_send(s.subscription_id)) placing substr(uuid_send(p_id), 1, 6)
                          from 1 for 6),
                      6, 112 | (get_byte(uuid_send(p_id), 6) & 15)), 8, 128 | (get_byte(uuid_send(p_id), 8) & 63))
                  , 'hex')::varchar(32)::uuid
          from (select x.* from onward.subscription x where x.tenant = p_tenant and x.pattern = p_topic and not x.wild
                union all
                select x.* from onward.subscription x
                 where x.tenant = p_tenant and x.wild and x.first = split_part(p_topic, '.', 1)
                   and p_topic || '.' ~ x.expression
                union all
                select x.* from onward.subscription x
                 where x.tenant = p_tenant and x.wild and x.first is null and p_topic || '.' ~ x.expression) s
         order by s.kind, s.target, s.subscription_id;
end
$$;
