-- Puts messages with the dead letters of their queue, as the first of a day in another one: no group (each can be looked
-- at by itself; `dead` remembers it), no hand-outs, a receipt that nobody holds. Answers how many.
--
-- Called by: receive_messages, and bury_letter, which hold the messages' locks. Locks: their groups' rows, skipping locked,
--   because senders and deleters lock these first: a letter whose group is busy is left for the next time.
-- Twice: they are in another queue, so nobody comes by here with them again.
create or replace function onward.bury_letters(p_tenant text, p_queue text, p_ids uuid[], p_reason text)
returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_groups text[];
    v_buried bigint;
begin
    select array_agg(locked.group_id) into v_groups
      from (select distinct q.group_id as id from onward.queued q where q.msg_id = any (p_ids)) i
     cross join lateral (
            select g.group_id from onward.queue_group g
             where g.tenant = p_tenant and g.queue = p_queue and g.group_id = i.id for update skip locked) locked;
    update onward.queued q
       set queue = p_queue || '.dead', group_id = null, head = true, visible_at = v_now, receipt = q.receipt + 1,
           read_count = 0,
           dead = jsonb_strip_nulls(jsonb_build_object(
               'queue', p_queue, 'reason', p_reason, 'group', q.group_id, 'receives', q.read_count, 'at', v_now))
     where q.msg_id = any (p_ids) and (q.group_id is null or q.group_id = any (v_groups));
    get diagnostics v_buried = row_count;
    if v_groups is not null then
        perform onward.promote(p_tenant, p_queue, v_groups);
    end if;
    if v_buried > 0 then
        perform onward.tell_queues(p_tenant, array[p_queue, p_queue || '.dead']);
    end if;
    return v_buried;
end
$$;
