-- A flush that holds a single step: `commit` without its arrays, which cost more than the step. This is the latency
-- of a run whose steps follow one another.
--
-- Called by: a worker's committer. Locks, gate and answers: those of commit and commit_steps, word for word. The
-- fence is read one statement before the insert; behind the gate nobody else can come to own the run in between,
-- and a cancel that does is not acknowledged before this lane has ended.
create or replace function onward.commit_step(
    p_worker bigint, p_lane integer, p_no bigint, p_run uuid, p_receipt bigint, p_name text, p_kind text,
    p_output bytea, p_error bytea, p_attempt integer, p_seconds float8,
    out alive boolean, out at timestamptz, out step text)
language plpgsql as $$
declare
    v_paused boolean;
begin
    at := onward.now();
    update onward.lane set last_no = p_no where worker_id = p_worker and lane = p_lane and last_no < p_no;
    alive := found;
    if not alive then
        return;
    end if;
    select paused into v_paused from onward.message
     where msg_id = p_run and receipt = p_receipt and owner is not distinct from p_worker;
    if found then
        insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
        values (p_run, p_name, p_kind, p_output, p_error, p_attempt, p_receipt,
                at - make_interval(secs => p_seconds), at)
        on conflict do nothing;
        if found and not v_paused then
            step := 'ok';
            return;
        end if;
    end if;
    step := onward.step_word(p_worker, p_run, p_receipt, p_name);
end
$$;
