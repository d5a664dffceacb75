-- A flush that holds a single step: `commit` without its arrays, which cost more than the step. This is the latency
-- of a run whose steps follow one another.
--
-- Called by: a worker's committer. Locks and gate: those of commit and commit_steps. The fence is read in the insert's
-- own snapshot; behind the gate nobody else can come to own the run meanwhile, and a cancel that does is not
-- acknowledged before this lane has ended.
-- Answers: when it was journalled; null where that is not all there is to say (the gate is shut, the run is lost or
--   paused, a row is there). Then the caller sends the same to `commit`, as after an unknown outcome, and is told.
create or replace function onward.commit_step(
    p_worker bigint, p_lane integer, p_no bigint, p_run uuid, p_receipt bigint, p_name text, p_kind text,
    p_output bytea, p_error bytea, p_attempt integer, p_seconds float8)
returns timestamptz
language plpgsql as $$
declare
    v_now timestamptz := onward.now();
begin
    update onward.lane set last_no = p_no where worker_id = p_worker and lane = p_lane and last_no < p_no;
    if not found then
        return null;
    end if;
    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select p_run, p_name, p_kind, p_output, p_error, p_attempt, p_receipt,
           v_now - make_interval(secs => p_seconds), v_now
      from onward.message
     where msg_id = p_run and receipt = p_receipt and owner is not distinct from p_worker and not paused
    on conflict do nothing;
    return case when found then v_now end;
end
$$;
