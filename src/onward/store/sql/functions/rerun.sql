-- A new run with another's input and, with p_from, with its journal before that step; some outputs replaced.
-- Kept is what was committed before the step (and nothing from inside it): a replay of the copy asks for exactly
-- that. Called by: clients, with an id of their own. Locks: the original for key share, so that
-- retention does not remove it in the middle; what it reads is never changed.
-- Twice: the id is there, nothing is done. Answers: ok, unknown (no such run), no step (p_from is not journalled).
create or replace function onward.rerun(
    p_tenant text, p_run uuid, p_new uuid, p_from text, p_names text[], p_outputs bytea[], p_trace text default null)
returns text
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now timestamptz := onward.now();
    v_end bigint;
begin
    perform 1 from onward.run where run_id = p_run and tenant = p_tenant for key share;
    if not found then
        return 'unknown';
    end if;
    if p_from is not null then
        select seq into v_end from onward.step where run_id = p_run and name = p_from;
        if not found then
            return 'no step';
        end if;
    end if;

    insert into onward.run (run_id, tenant, workflow, version, input_hash, retention, rerun_of, started_at, trace)
    select p_new, tenant, workflow, version, input_hash, retention, p_run, v_now, p_trace
      from onward.run where run_id = p_run
    on conflict do nothing;
    if not found then
        return 'ok';
    end if;
    insert into onward.run_input (run_id, input, search)
    select p_new, input, search from onward.run_input where run_id = p_run;

    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select p_new, s.name, s.kind, coalesce(o.output, s.output), case when o.output is null then s.error end,
           s.attempt, 0, s.started_at, s.completed_at
      from onward.step s
      left join unnest(p_names, p_outputs) as o (name, output) on o.name = s.name
     where s.run_id = p_run and s.seq < v_end and not starts_with(s.name, p_from || e'\x1f')
       -- a hand-off that was not over: who has it would answer the original
       and (s.kind <> 'batch' or position(e'\x1f' in s.name) = 0 or exists (
            select 1 from onward.step b where b.run_id = p_run and b.name = split_part(s.name, e'\x1f', 1) and b.seq < v_end))
     order by s.seq;

    insert into onward.running (tenant, workflow, started_at, run_id)
    select tenant, workflow, started_at, run_id from onward.run where run_id = p_new;
    insert into onward.tally (tenant, workflow, metric, label, count)
    select tenant, workflow, 'started', '', 1 from onward.run where run_id = p_new;
    insert into onward.borrowed (owner, borrower)    -- what is kept may point to objects of the runs that it is from
    select p_run, p_new
    union
    select owner, p_new from onward.borrowed where borrower = p_run;

    -- receipt 1: a claim reads no journal where nobody had the run before
    insert into onward.message (msg_id, tenant, queue, version, visible_at, receipt)
    select p_new, tenant, '__wf_' || workflow, coalesce(version, 0), v_now, 1 from onward.run where run_id = p_run;
    perform pg_notify('onward_work', '');
    return 'ok';
end
$$;
