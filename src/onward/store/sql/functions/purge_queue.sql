-- Deletes messages of a queue, in hand or not, that were sent before the purge began: at most p_limit without a group, and as
-- many of a hundred groups. Answers how many, and until which seq it goes; the caller goes on with that until none is left.
--
-- Called by: clients. Locks: the groups' rows by group, then the messages by seq. Twice: the next ones.
create or replace function onward.purge_queue(
    p_tenant text, p_queue text, p_until bigint, p_limit integer, out purged bigint, out until bigint)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_groups text[];
    v_ids    uuid[];
begin
    until := coalesce(p_until, pg_sequence_last_value('onward.queued_seq_seq'), 0);
    select array_agg(locked.group_id) into v_groups
      from (select g.group_id from onward.queue_group g
             where g.tenant = p_tenant and g.queue = p_queue
               and exists (select 1 from onward.queued q where q.tenant = p_tenant and q.queue = p_queue
                              and q.group_id = g.group_id and q.seq <= until)
             order by g.group_id limit 100 for update) locked;
    select array_agg(i.msg_id) into v_ids
      from ((select q.msg_id from onward.queued q
              where q.tenant = p_tenant and q.queue = p_queue and q.head and q.group_id is null and q.seq <= until
              limit p_limit)
            union all
            (select q.msg_id from unnest(v_groups) as g (id)
              cross join lateral (
                     select n.msg_id from onward.queued n
                      where n.tenant = p_tenant and n.queue = p_queue and n.group_id = g.id and n.seq <= until
                      order by n.seq limit p_limit) q
              limit p_limit)) i;
    perform 1 from onward.queued q where q.msg_id = any (v_ids) order by q.seq for update;
    delete from onward.queued q where q.msg_id = any (v_ids) and q.tenant = p_tenant and q.queue = p_queue;
    get diagnostics purged = row_count;
    if v_groups is not null then
        perform onward.promote(p_tenant, p_queue, v_groups);
        perform onward.tell_queues(p_tenant, array[p_queue]);
    end if;
end
$$;
