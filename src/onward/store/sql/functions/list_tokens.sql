-- A tenant's tokens, those that have ended too, oldest first. Called by: onward token list. Reads only.
create or replace function onward.list_tokens(p_tenant text)
returns table (token_id text, tenant text, scope text, note text, created_at timestamptz, expires_at timestamptz,
               revoked_at timestamptz, live boolean)
language sql volatile as $$
    select t.token_id, t.tenant, t.scope, t.note, t.created_at, t.expires_at, t.revoked_at,
           t.revoked_at is null and (t.expires_at is null or t.expires_at > onward.now())
      from onward.token t where t.tenant = p_tenant order by t.created_at, t.token_id
$$;
