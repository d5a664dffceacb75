-- Does a journalled value point to an object of the payload store? See core/pointers.py.
-- Called by: settle, and what looks for pointers. (SQL and immutable, so that it becomes part of the query that asks.)
create or replace function onward.is_pointer(p_value bytea) returns boolean
language sql immutable as $$
    select substring(p_value from 1 for 12) = '{"$payload":'
$$;
