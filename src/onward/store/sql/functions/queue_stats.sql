-- How many messages a queue has. A queue without any has a row of zeros. `ready`: nothing is missing but a consumer, or the
-- end of those of its group that are before it. `oldest`: when the oldest of these was sent.
-- Called by: clients. Reads only. A queue of runs (__wf_…) is read from their messages.
create or replace function onward.queue_stats(p_tenant text, p_queue text)
returns table (queue text, ready bigint, delayed bigint, in_flight bigint, dead bigint, oldest timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan as $$
declare
    v_now timestamptz := onward.now();
begin
    if starts_with(p_queue, '__wf_') then
        return query
            select s.queue, s.ready, s.delayed, s.in_flight, s.dead, s.oldest from onward.list_queues(p_tenant) s
             where s.queue = p_queue;
        if not found then
            return query select p_queue, 0::bigint, 0::bigint, 0::bigint, 0::bigint, null::timestamptz;
        end if;
        return;
    end if;
    return query
        select p_queue,
               count(*) filter (where m.visible_at <= v_now or not m.head),
               count(*) filter (where m.visible_at > v_now and m.head and m.receipt = 0),
               count(*) filter (where m.visible_at > v_now and m.head and m.receipt > 0),
               (select count(*) from onward.queued d
                 where d.tenant = p_tenant and d.queue = p_queue || '.dead' and d.head),
               min(m.enqueued_at) filter (where m.visible_at <= v_now or not m.head)
          from (select q.head, q.visible_at, q.receipt, q.enqueued_at from onward.queued q
                 where q.tenant = p_tenant and q.queue = p_queue and q.head and q.group_id is null
                union all
                select q.head, q.visible_at, q.receipt, q.enqueued_at from onward.queued q
                 where q.tenant = p_tenant and q.queue = p_queue and q.group_id is not null) m;
end
$$;
