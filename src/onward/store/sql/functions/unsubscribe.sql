-- Ends a subscription. What it is still to be posted is not posted any more.
-- Called by: clients. Locks: the subscription. Twice: false, it is not there.
create or replace function onward.unsubscribe(p_tenant text, p_id uuid) returns boolean
language plpgsql as $$
begin
    delete from onward.subscription s where s.subscription_id = p_id and s.tenant = p_tenant;
    return found;
end
$$;
