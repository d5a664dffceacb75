-- What a token grants now: no row where it is unknown, expired (by the one clock) or revoked. Whether the secret is the
-- right one, the caller sees by the hash, in constant time. Called by: the server, at each request. Reads only.
create or replace function onward.find_token(p_id text)
returns table (tenant text, scope text, hash bytea)
language plpgsql as $$
begin
    return query
        select t.tenant, t.scope, t.hash from onward.token t
         where t.token_id = p_id and t.revoked_at is null
           and (t.expires_at is null or t.expires_at > onward.now());
end
$$;
