-- Runs as people see them, in the order of the ids given. `state` says more of a running one.
-- Called by: clients, list_runs. Reads only; a run of another tenant is not there.
create or replace function onward.describe(p_tenant text, p_runs uuid[])
returns table (
    run_id uuid, workflow text, version integer, tenant text, status text, state text, reason text, input bytea,
    output bytea, error bytea, idempotency_key text, rerun_of uuid, retention interval, started_at timestamptz,
    completed_at timestamptz)
language sql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select r.run_id, r.workflow, r.version, r.tenant, coalesce(x.status, 'running'),
           case when x.status is not null then x.status
                when m.paused then 'paused'
                when m.owner is not null and exists (select 1 from onward.worker w where w.worker_id = m.owner
                                                     and w.lease_until > onward.now()) then 'executing'
                when m.reason is not null then 'parked'
                when m.visible_at <= onward.now() or m.owner is not null then
                    case when onward.is_served(r.workflow, r.version) then 'queued' else 'stranded' end
                else coalesce((
                    select case when bool_or(p.kind in ('wait', 'invoke', 'batch')) then 'waiting'
                                when bool_or(p.kind = 'retry') then 'retrying' else 'sleeping' end
                      from onward.pending p where p.run_id = r.run_id having count(*) > 0), 'queued') end,
           m.reason, i.input, x.output, x.error, r.idempotency_key, r.rerun_of, r.retention, r.started_at,
           x.completed_at
      from unnest(p_runs) with ordinality as want (id, ord)
      join lateral (select * from onward.run where run_id = want.id offset 0) r on r.tenant = p_tenant
      join onward.run_input i on i.run_id = r.run_id
      left join onward.message m on m.msg_id = r.run_id
      left join onward.run_result x on x.run_id = r.run_id
     order by want.ord
$$;
