-- A worker leaves in good order, having released its runs. What it should still own is freed as by a reaper.
-- Called by: workers, at the end. Locks and idempotence: those of `bury`.
create or replace function onward.retire(p_worker bigint) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    perform 1 from onward.worker where worker_id = p_worker for update;
    if found then
        perform onward.bury(p_worker, false);
    end if;
end
$$;
