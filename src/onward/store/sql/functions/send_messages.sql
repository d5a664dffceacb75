-- Puts messages into users' queues, in the order given. One notify a call for each queue that somebody waits for.
--
-- Called by: clients, and publish. Locks: the groups' rows by queue and group, until the end of the transaction: so the
--   order of `seq` in a group is that of commit, and whoever takes a head away (delete_messages, bury_letters) and a
--   sender wait for each other. Whether a group has a head is read in a later statement than the one that locks: in the
--   same one its snapshot would still hold a head that was deleted meanwhile, and the group would stay without one.
-- A delayed message holds up those of its group behind it: a group goes strictly in order of sending.
-- Twice: ids are the sender's; a message that is there is not sent again. One that was received and deleted in between
--   is: a queue delivers at least once.
create or replace function onward.send_messages(
    p_tenant text, p_queues text[], p_ids uuid[], p_groups text[], p_delays float8[], p_bodies bytea[],
    p_searches text[], p_headers bytea[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now     timestamptz := onward.now();
    v_grouped boolean := exists (select 1 from unnest(p_groups) as g where g is not null);
    v_sent    bigint;
begin
    if v_grouped then
        insert into onward.queue_group as g (tenant, queue, group_id)
        select distinct p_tenant, i.queue, i.grp from unnest(p_queues, p_groups) as i (queue, grp)
         where i.grp is not null order by 2, 3
        on conflict (tenant, queue, group_id) do update set sends = g.sends + 1;
    end if;
    insert into onward.queued (msg_id, tenant, queue, group_id, head, visible_at, enqueued_at, body, search, headers)
    select i.id, p_tenant, i.queue, i.grp,
           i.grp is null
               or (i.place = 1 and not exists (select 1 from onward.queued q where q.tenant = p_tenant
                                                  and q.queue = i.queue and q.group_id = i.grp)),
           v_now + make_interval(secs => coalesce(i.delay, 0)), v_now, i.body, i.search::jsonb, i.headers
      from (select u.*, case when u.grp is not null then
                   row_number() over (partition by u.queue, u.grp order by u.ord) end as place
              from unnest(p_queues, p_ids, p_groups, p_delays, p_bodies, p_searches, p_headers) with ordinality
                   as u (queue, id, grp, delay, body, search, headers, ord)) i
     order by i.ord
    on conflict (msg_id) do nothing;
    get diagnostics v_sent = row_count;
    if v_grouped and v_sent < cardinality(p_ids) then    -- who was meant to be the head may be in another queue by now
        perform onward.promote(p_tenant, i.queue, array_agg(distinct i.grp))
           from unnest(p_queues, p_groups) as i (queue, grp) where i.grp is not null group by i.queue;
    end if;
    perform onward.tell_queues(p_tenant, p_queues);
end
$$;
