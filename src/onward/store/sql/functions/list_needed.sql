-- The pointers that keep the objects of some runs: those in their own rows, if they are there, and in the rows of
-- everybody who may have got one from them, by however many hands.
--
-- Who may: a rerun keeps rows of its original (`borrowed`), and the journal of a parent holds what an invoked run gave.
--   When a run between the two is removed, remove_expired ties its neighbours together. So a run that points to an
--   object is always reached from the object's owner over runs that are there.
-- Called by: retention and payload sweep, before they delete objects. Reads only. A caller that acts on what it read of a
--   run reads this afterwards: a pointer that was journalled in between would else be missed.
create or replace function onward.list_needed(p_owners uuid[]) returns setof bytea
language sql stable as $$
    with recursive reached (run_id) as (
        select unnest(p_owners)
        union
        select n.run_id
          from reached r
         cross join lateral (
                select b.borrower as run_id from onward.borrowed b where b.owner = r.run_id
                union all
                select p.parent from onward.run p where p.run_id = r.run_id and p.parent is not null) n)
    select pointer from onward.list_pointers(array(select run_id from reached))
$$;
