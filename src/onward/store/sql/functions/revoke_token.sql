-- Ends a token at once: the next request with it is refused. Called by: onward token revoke. Locks: its row.
-- Twice: it stays revoked as of the first time. False: the tenant has no such token.
create or replace function onward.revoke_token(p_tenant text, p_id text) returns boolean
language plpgsql as $$
begin
    update onward.token set revoked_at = coalesce(revoked_at, onward.now())
     where token_id = p_id and tenant = p_tenant;
    return found;
end
$$;
