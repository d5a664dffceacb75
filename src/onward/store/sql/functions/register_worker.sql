-- A new incarnation of a worker: its row, its lane, what it serves. Parked runs that it may fit are due again.
--
-- Called by: workers, at start and after they were declared dead. Locks: parked messages by id, skipping locked.
create or replace function onward.register_worker(
    p_name text, p_lease float8, p_workflows text[], p_versions integer[], p_retentions float8[])
returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_worker bigint;
begin
    insert into onward.worker (name, lease, lease_until, beat_at, started_at)
    values (p_name, make_interval(secs => p_lease), v_now + make_interval(secs => p_lease), v_now, v_now)
    returning worker_id into v_worker;
    insert into onward.lane (worker_id, lane) values (v_worker, 0);
    insert into onward.serves (worker_id, workflow, version, retention)
    select v_worker, s.workflow, s.version, make_interval(secs => s.retention)
      from unnest(p_workflows, p_versions, p_retentions) as s (workflow, version, retention);

    with parked as (
        select m.msg_id from onward.message m
          join unnest(p_workflows) as s (workflow) on m.queue = '__wf_' || s.workflow
         where m.reason is not null and m.owner is null
         order by m.msg_id for update of m skip locked)
    update onward.message m set visible_at = v_now from parked p where m.msg_id = p.msg_id;
    return v_worker;
end
$$;
