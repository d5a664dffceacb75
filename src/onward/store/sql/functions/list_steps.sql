-- A run's journal in its order, then what is pending. Called by: clients. Reads only.
create or replace function onward.list_steps(p_tenant text, p_run uuid)
returns table (
    name text, kind text, status text, attempt integer, output bytea, error bytea, started_at timestamptz,
    completed_at timestamptz, seq bigint, event text, match text, child uuid, attempts integer, deadline timestamptz)
language sql stable as $$
    select s.name, s.kind, case when s.error is null then 'completed' else 'failed' end, s.attempt, s.output,
           s.error, s.started_at, s.completed_at, s.seq, null, null, null::uuid, null::integer, null::timestamptz
      from onward.step s join onward.run r on r.run_id = s.run_id and r.tenant = p_tenant
     where s.run_id = p_run
    union all
    select p.name, case p.kind when 'retry' then 'run' else p.kind end,
           case p.kind when 'retry' then 'retrying' when 'sleep' then 'sleeping' else 'waiting' end, p.attempt, null,
           p.error, p.since, null, 9223372036854775807 - 1000000 + p.seq % 1000000, p.event, p.match::text, p.child,
           p.attempts, nullif(p.deadline, 'infinity')
      from onward.pending p join onward.run r on r.run_id = p.run_id and r.tenant = p_tenant
     where p.run_id = p_run
     order by 9
$$;
