-- Starts one run that is nobody's child: `start_runs` without its arrays, for the latency of a single start.
--
-- Called by: clients. Locks, idempotence and answer: those of start_runs, for one item.
create or replace function onward.start_run(
    p_id uuid, p_tenant text, p_workflow text, p_version integer, p_key text, p_hash bytea, p_input bytea,
    p_search text, p_retention float8, p_delay float8, p_trace text default null, out run_id uuid, out same boolean)
language plpgsql as $$
declare
    v_now timestamptz;
begin
    if p_version is null or p_retention is null then     -- a name: what live workers serve decides
        select s.run_id, s.same into start_run.run_id, start_run.same
          from onward.start_runs(array[p_id], p_tenant, p_workflow, array[p_version], array[p_key], array[p_hash],
                                 array[p_input], array[p_search], array[p_retention], array[p_delay], null, null, null,
                                 array[p_trace]) s;
        return;
    end if;
    v_now := onward.now();
    insert into onward.run (run_id, tenant, workflow, version, idempotency_key, input_hash, retention, started_at, trace)
    values (p_id, p_tenant, p_workflow, p_version, p_key, p_hash, onward.retained(make_interval(secs => p_retention)),
            v_now, p_trace)
    on conflict do nothing;
    if found then
        insert into onward.run_input (run_id, input, search) values (p_id, p_input, p_search::jsonb);
        insert into onward.message (msg_id, tenant, queue, version, visible_at)
        values (p_id, p_tenant, '__wf_' || p_workflow, p_version, v_now + make_interval(secs => coalesce(p_delay, 0)));
        insert into onward.running (tenant, workflow, started_at, run_id) values (p_tenant, p_workflow, v_now, p_id);
        insert into onward.tally (tenant, workflow, metric, label, count) values (p_tenant, p_workflow, 'started', '', 1);
        perform pg_notify('onward_work', '');
        run_id := p_id;
        same := true;
        return;
    end if;
    select r.run_id, r.input_hash = p_hash into start_run.run_id, start_run.same from onward.run r
     where (r.run_id = p_id and r.tenant = p_tenant)
        or (r.tenant = p_tenant and r.workflow = p_workflow and r.idempotency_key = p_key)
     order by r.run_id <> p_id limit 1;
    same := coalesce(same, false);
end
$$;
