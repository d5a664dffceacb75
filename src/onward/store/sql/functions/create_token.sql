-- A token: its id and the hash of its secret. Called by: onward token create. Locks: none. Twice: it is there.
create or replace function onward.create_token(
    p_id text, p_tenant text, p_scope text, p_hash bytea, p_note text, p_for float8)
returns table (created_at timestamptz, expires_at timestamptz)
language plpgsql as $$
declare
    v_now timestamptz := onward.now();
begin
    insert into onward.token (token_id, tenant, scope, hash, note, created_at, expires_at)
    values (p_id, p_tenant, p_scope, p_hash, p_note, v_now, v_now + make_interval(secs => p_for))
    on conflict do nothing;
    return query select t.created_at, t.expires_at from onward.token t where t.token_id = p_id;
end
$$;
