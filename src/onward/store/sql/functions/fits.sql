-- Does a signal fit what a wait matches? A signal that lies outside the database fits what its run's worker said.
-- Called by: settle, is_due, is_answer. (SQL and immutable, so that it becomes part of the query that asks.)
create or replace function onward.fits(p_match jsonb, p_search jsonb, p_fits jsonb[]) returns boolean
language sql immutable as $$
    select p_match is null or coalesce(p_search @> p_match, p_match = any (p_fits))
$$;
