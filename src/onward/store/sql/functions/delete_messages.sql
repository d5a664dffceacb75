-- Deletes messages that were handed out, by their receipts; the next of each group is ready then. Answers a word an item,
-- in order: `deleted`; `stale` (it was handed on, or moved to the dead letters); `gone` (it is not there).
--
-- Called by: clients. Locks: the groups' rows by group, as a sender does, then the messages by seq. What depends on them is
--   read in later statements: a receiver may have held them, and handed them out anew.
-- Twice: `gone`, which is what the caller wants.
create or replace function onward.delete_messages(p_tenant text, p_queue text, p_ids uuid[], p_receipts bigint[])
returns table (outcome text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_groups  text[];
    v_deleted uuid[];
    v_went    text[];      -- the groups that lost their heads,
    v_after   bigint;      -- all of which were sent after this one
begin
    select array_agg(distinct q.group_id) filter (where q.group_id is not null) into v_groups
      from onward.queued q where q.msg_id = any (p_ids) and q.tenant = p_tenant and q.queue = p_queue;
    perform 1 from (select u.id from unnest(v_groups) as u (id) order by u.id) i   -- one by one: never through all groups
      cross join lateral (select 1 from onward.queue_group g
                           where g.tenant = p_tenant and g.queue = p_queue and g.group_id = i.id for update) locked;
    perform 1 from onward.queued q
      where q.msg_id = any (p_ids) and q.tenant = p_tenant and q.queue = p_queue order by q.seq for update;
    with deleted as (
        delete from onward.queued q
         using unnest(p_ids, p_receipts) as i (id, receipt)
         where q.msg_id = i.id and q.receipt = i.receipt and q.receipt > 0 and q.tenant = p_tenant and q.queue = p_queue
           and (q.group_id is null or q.group_id = any (v_groups))
        returning q.msg_id, q.group_id, q.seq)
    select array_agg(d.msg_id), array_agg(d.group_id) filter (where d.group_id is not null), min(d.seq)
      into v_deleted, v_went, v_after
      from deleted d;
    if v_went is not null then
        perform onward.promote(p_tenant, p_queue, v_went, v_after);
        perform onward.tell_queues(p_tenant, array[p_queue]);
    end if;
    return query
        select case when i.id = any (v_deleted) then 'deleted'
                    when exists (select 1 from onward.queued q where q.msg_id = i.id and q.tenant = p_tenant) then 'stale'
                    else 'gone' end
          from unnest(p_ids) with ordinality as i (id, ord) order by i.ord;
end
$$;
