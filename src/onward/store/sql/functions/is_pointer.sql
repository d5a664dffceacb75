-- Does this journalled value lie outside the database? The first bytes decide, as core/pointers.py says.
-- Called by: list_pointers. Reads only. (SQL and immutable, so that it becomes part of the query that asks.)
create or replace function onward.is_pointer(p_value bytea) returns boolean
language sql immutable as $$
    select substr(p_value, 1, 12) = '{"$payload":'::bytea
$$;
