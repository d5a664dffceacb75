-- The queues that have messages, those of runs included, with the numbers of queue_stats. Called by: clients, queue_stats.
-- Reads only; goes through every message of the tenant, so it is for people, not for a loop.
create or replace function onward.list_queues(p_tenant text)
returns table (queue text, ready bigint, delayed bigint, in_flight bigint, dead bigint, oldest timestamptz)
language sql volatile as $$
    with moment as materialized (select onward.now() as at),
    found as (
        select q.queue, count(*) filter (where q.visible_at <= m.at or not q.head) as ready,
               count(*) filter (where q.visible_at > m.at and q.head and q.receipt = 0) as delayed,
               count(*) filter (where q.visible_at > m.at and q.head and q.receipt > 0) as in_flight,
               min(q.enqueued_at) filter (where q.visible_at <= m.at or not q.head) as oldest
          from onward.queued q cross join moment m
         where q.tenant = p_tenant group by q.queue
        union all
        select r.queue, count(*) filter (where r.owner is null and r.visible_at <= m.at),
               count(*) filter (where r.owner is null and r.visible_at > m.at),
               count(*) filter (where r.owner is not null),
               min(r.visible_at) filter (where r.owner is null and r.visible_at <= m.at)
          from onward.message r cross join moment m
         where r.tenant = p_tenant group by r.queue)
    select f.queue, f.ready, f.delayed, f.in_flight,
           coalesce((select d.ready + d.delayed + d.in_flight from found d where d.queue = f.queue || '.dead'), 0),
           f.oldest
      from found f order by f.queue
$$;
