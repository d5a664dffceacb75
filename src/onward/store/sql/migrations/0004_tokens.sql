-- Who may use a server. The secret itself is nowhere: its SHA-256 tells it, and nobody can go back from there.
create table onward.token (
    token_id   text collate "C" primary key,
    tenant     text collate "C" not null,
    scope      text not null check (scope in ('read', 'signal', 'write', 'admin')),
    hash       bytea not null check (octet_length(hash) = 32),
    note       text,
    created_at timestamptz not null,
    expires_at timestamptz,                              -- null: never
    revoked_at timestamptz
);
create index token_tenant on onward.token (tenant, created_at);
