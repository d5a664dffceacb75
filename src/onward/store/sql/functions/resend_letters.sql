-- Sends dead letters of a queue again, oldest first: into the queue and the group that they came from, or, where it was an
-- HTTP delivery, to its subscription. Nothing of their past counts any more. Answers how many.
--
-- Called by: clients. Locks: the letters, skipping locked; then the groups' rows of the queue by group. Whoever holds these
--   never waits for a letter. Letters that were sent into the dead letters by hand, or whose subscription is gone, stay.
-- Twice: they are no dead letters any more.
create or replace function onward.resend_letters(p_tenant text, p_queue text, p_limit integer) returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_ids    uuid[];
    v_groups text[];
    v_posts  bigint;
begin
    select array_agg(letter.msg_id) into v_ids
      from (select q.msg_id from onward.queued q
             where q.tenant = p_tenant and q.queue = p_queue || '.dead' and q.head and q.visible_at <= v_now
               and q.dead is not null
               and (not q.dead ? 'subscription'
                    or exists (select 1 from onward.subscription s
                                where s.subscription_id = (q.dead ->> 'subscription')::uuid and s.tenant = p_tenant))
             order by q.visible_at, q.seq limit p_limit for update skip locked) letter;

    with posts as (
        delete from onward.queued q where q.msg_id = any (v_ids) and q.dead ? 'subscription'
        returning q.msg_id, q.dead, q.body, q.search)
    insert into onward.delivery (delivery_id, tenant, subscription_id, topic, body, search, visible_at, created_at)
    select p.msg_id, p_tenant, (p.dead ->> 'subscription')::uuid, p.dead ->> 'topic', p.body, p.search, v_now, v_now
      from posts p
    on conflict do nothing;
    get diagnostics v_posts = row_count;

    select array_agg(distinct q.dead ->> 'group') filter (where q.dead ? 'group') into v_groups
      from onward.queued q where q.msg_id = any (v_ids);
    if v_groups is not null then
        insert into onward.queue_group as g (tenant, queue, group_id)
        select p_tenant, p_queue, i.grp from unnest(v_groups) as i (grp) order by i.grp
        on conflict (tenant, queue, group_id) do update set sends = g.sends + 1;
    end if;
    update onward.queued q
       set queue = p_queue, group_id = q.dead ->> 'group', head = not q.dead ? 'group', seq = i.seq, visible_at = v_now,
           receipt = q.receipt + 1, read_count = 0, dead = null
      from (select s.id, nextval('onward.queued_seq_seq') as seq
              from (select u.id from unnest(v_ids) with ordinality as u (id, ord) order by u.ord) s) i
     where q.msg_id = i.id;
    if v_groups is not null then
        perform onward.promote(p_tenant, p_queue, v_groups);
    end if;
    if v_ids is not null then
        perform onward.tell_queues(p_tenant, array[p_queue]);
    end if;
    if v_posts > 0 then
        perform pg_notify('onward_delivery', '');
    end if;
    return coalesce(cardinality(v_ids), 0);
end
$$;
