-- The advisory lock of a worker: the letters "onwd" above, the worker's id below. Called by: hold_session, reap.
create or replace function onward.session_key(p_worker bigint) returns bigint
language sql immutable as $$ select (x'6f6e7764'::bigint << 32) | (p_worker & x'ffffffff'::bigint) $$;
