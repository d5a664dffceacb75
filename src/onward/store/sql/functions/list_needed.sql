-- The pointers that keep the objects of some runs: those in their own rows, if they are there, and in the rows of
-- everybody who may have got one from them, by however many hands.
--
-- Who may: a rerun, which keeps rows of its original, and a parent, whose journal holds what its child gave: both say so
--   in `borrowed`. When a run between two others is removed, remove_expired ties these together. So a run that points to
--   an object is always reached from the object's owner over runs that are there.
-- Called by: retention and payload sweep, before they delete objects. Reads only. A caller that acts on what it read of a
--   run reads this afterwards: a pointer that was journalled in between would else be missed.
create or replace function onward.list_needed(p_owners uuid[]) returns setof bytea
language sql stable as $$
    with recursive reached (run_id) as (
        select unnest(p_owners)
        union
        select b.borrower from reached r join onward.borrowed b on b.owner = r.run_id)
    select pointer from onward.list_pointers(array(select run_id from reached))
$$;
