-- Gives groups of a queue that have no head one: their oldest message. A group without messages loses its row.
-- Called by: whoever took a head away or put letters back, under the groups' locks and in a later statement. Locks: the
-- message that becomes head. Twice: the head stands.
-- p_after: the heads of all these groups went, and none was sent before this one; so that one need not look at what is
--   deleted and not yet cleaned up.
create or replace function onward.promote(
    p_tenant text, p_queue text, p_groups text[], p_after bigint default -1)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    update onward.queued q set head = true
      from unnest(p_groups) as g (id)
     cross join lateral (
            select n.msg_id from onward.queued n
             where n.tenant = p_tenant and n.queue = p_queue and n.group_id = g.id and n.seq > p_after
             order by n.seq limit 1) first
     where q.msg_id = first.msg_id and not q.head;
    delete from onward.queue_group g
     where g.ctid = any (array(        -- locked, so it stays where it is; looked up one by one, never through all groups
            select own.ctid from unnest(p_groups) as i (id)
             cross join lateral (
                    select x.ctid from onward.queue_group x
                     where x.tenant = p_tenant and x.queue = p_queue and x.group_id = i.id limit 1) own
             where (select 1 from onward.queued q           -- no `not exists`: that may become a walk through the queue
                     where q.tenant = p_tenant and q.queue = p_queue and q.group_id = i.id limit 1) is null));
end
$$;
