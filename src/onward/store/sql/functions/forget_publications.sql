-- Forgets idempotency keys of publications after a week. Called by: deliverers, every minute or so. Locks: these rows,
-- skipping locked. Twice: the next ones.
create or replace function onward.forget_publications(p_limit integer) returns bigint
language plpgsql as $$
declare
    v_forgotten bigint;
begin
    with old as (
        select p.tenant, p.topic, p.key from onward.publication p
         where p.published_at < onward.now() - interval '7 days'
         order by p.published_at limit p_limit for update skip locked)
    delete from onward.publication p using old o
     where p.tenant = o.tenant and p.topic = o.topic and p.key = o.key;
    get diagnostics v_forgotten = row_count;
    return v_forgotten;
end
$$;
