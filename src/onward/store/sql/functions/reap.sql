-- Declares workers dead and frees their runs: at most one worker a call. Answers how many runs became free.
--
-- Called by: every worker, every half second. A worker is dead when its lease has lapsed, or when its session
--   lock is free and it has not been heard of for a second (after a restart of the database every session is
--   gone at once; its workers get three seconds to come back).
-- Locks: the worker's row, skipping locked, checked again under the lock; then those of `bury`. Then, one by one
--   and skipping locked, messages of owners that have no row: a batch or claim that outlived its worker's row.
create or replace function onward.reap() returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_worker bigint;
    v_freed  bigint := 0;
    v_ghosts bigint;
begin
    select w.worker_id into v_worker from onward.worker w
     where w.lease_until < v_now
        or (w.holds_lock and w.beat_at < v_now - interval '1 second'
            and pg_postmaster_start_time() < clock_timestamp() - interval '3 seconds'
            and pg_try_advisory_xact_lock(onward.session_key(w.worker_id)))
     order by w.worker_id limit 1
       for update skip locked;
    if found then
        v_freed := onward.bury(v_worker, true);
    end if;

    with ghost as (
        select m.msg_id from onward.message m
         where m.owner is not null and not exists (select 1 from onward.worker w where w.worker_id = m.owner)
         order by m.msg_id limit 1000 for update skip locked)
    update onward.message m set owner = null, visible_at = v_now from ghost g where m.msg_id = g.msg_id;
    get diagnostics v_ghosts = row_count;

    with lapsed as (
        select run_id, channel from onward.awaited where until < v_now limit 1000 for update skip locked)
    delete from onward.awaited a using lapsed l where a.run_id = l.run_id and a.channel = l.channel;
    if v_freed + v_ghosts > 0 then
        perform pg_notify('onward_work', '');
    end if;
    return v_freed + v_ghosts;
end
$$;
