-- A flush that holds the end of a single run: `commit` without its arrays, for the latency of short runs.
--
-- Called by: a worker's committer. Locks, gate and assertion: those of commit and commit_ends.
-- Who waits for the result is told here, with the end, which saves a round trip. A commit that notifies makes others
--   that do wait for it; but where many ends come together they are not alone in their batch, and are announced
--   together afterwards.
-- Answers: when it ended; null where it did not. Nothing is written then, and the caller sends the same to `commit`, as
--   after an unknown outcome, and is told why.
create or replace function onward.commit_end(
    p_worker bigint, p_lane integer, p_no bigint, p_run uuid, p_receipt bigint, p_rows integer, p_status text,
    p_output bytea, p_error bytea, p_parent uuid)
returns timestamptz
language plpgsql
set plan_cache_mode = force_generic_plan as $$
declare
    v_now timestamptz := onward.now();
begin
    update onward.lane set last_no = p_no where worker_id = p_worker and lane = p_lane and last_no < p_no;
    if not found then
        return null;
    end if;
    if p_parent is not null then
        perform 1 from onward.message where msg_id in (p_run, p_parent) order by msg_id for update;
    end if;
    perform 1 from onward.message where msg_id = p_run and receipt = p_receipt and owner is not distinct from p_worker
       for update;
    if not found or (select count(*) from onward.step where run_id = p_run) <> p_rows then
        return null;
    end if;
    delete from onward.message where msg_id = p_run;
    with ended as (
        insert into onward.run_result (run_id, status, output, error, completed_at, expires_at,
                                       tenant, workflow, started_at)
        select p_run, p_status, p_output, p_error, v_now, v_now + onward.kept(r.retention),
               r.tenant, r.workflow, r.started_at
          from onward.run r where r.run_id = p_run
        returning tenant, workflow, started_at),
    counted as (        -- count_ends, for one; the folding finds its bucket
        insert into onward.tally (tenant, workflow, metric, label, count, seconds)
        select tenant, workflow, 'ended', p_status, 1, extract(epoch from v_now - started_at) from ended)
    delete from onward.running g using ended e
     where g.tenant = e.tenant and g.workflow = e.workflow and g.started_at = e.started_at and g.run_id = p_run;
    perform onward.clear_run(array[p_run], case when p_parent is not null then array[p_parent] end);
    perform onward.announce(array[p_run], p_parent is not null);
    return v_now;
end
$$;
