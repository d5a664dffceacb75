-- The objects of removed runs are deleted. p_kept: but for some that others still point to; then it waits for these to go.
--
-- Called by: retention, after list_removed, list_needed and the deletion. p_times: as list_removed gave it. Where it has
--   changed, somebody who pointed to these objects was removed after list_needed was read: the run stays due.
-- Locks: the rows by id. Twice: they are gone, or at infinity.
create or replace function onward.finish_removed(p_runs uuid[], p_times timestamptz[], p_kept boolean[]) returns void
language plpgsql as $$
begin
    perform 1 from onward.removed where run_id = any (p_runs) order by run_id for update;
    update onward.removed d set removed_at = 'infinity'
      from unnest(p_runs, p_times, p_kept) as i (run_id, at, kept)
     where d.run_id = i.run_id and d.removed_at = i.at and i.kept;
    delete from onward.removed d using unnest(p_runs, p_times, p_kept) as i (run_id, at, kept)
     where d.run_id = i.run_id and d.removed_at = i.at and not i.kept;
end
$$;
