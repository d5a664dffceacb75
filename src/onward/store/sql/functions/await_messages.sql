-- Which of these queues have something ready, or will have within two seconds, and in how many seconds. One call for all
-- that a client waits for.
-- p_for: for so many seconds the queues are told first (tell_queues); 0: the waits are written already, and hold.
-- Called by: clients, once a second while they wait. Locks: the waits, by tenant and queue; those that have lapsed,
-- skipping locked. Twice: the same waits hold a little longer.
create or replace function onward.await_messages(p_tenants text[], p_queues text[], p_for float8)
returns table (tenant text, queue text, due_in float8)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now timestamptz := onward.now();
begin
    if p_for > 0 then
        insert into onward.queue_wait as w (tenant, queue, until)
        select distinct i.tenant, i.queue, v_now + make_interval(secs => p_for)
          from unnest(p_tenants, p_queues) as i (tenant, queue) order by 1, 2
        on conflict on constraint queue_wait_pkey do update set until = greatest(w.until, excluded.until);
        with lapsed as (
            select w.tenant, w.queue from onward.queue_wait w where w.until < v_now limit 100 for update skip locked)
        delete from onward.queue_wait w using lapsed l where w.tenant = l.tenant and w.queue = l.queue;
    end if;
    return query
        select i.tenant, i.queue, extract(epoch from first.visible_at - v_now)::float8
          from unnest(p_tenants, p_queues) as i (tenant, queue)
         cross join lateral (
                select q.visible_at from onward.queued q
                 where q.tenant = i.tenant and q.queue = i.queue and q.head
                   and q.visible_at <= v_now + interval '2 seconds'
                 order by q.visible_at, q.seq limit 1) first;
end
$$;
