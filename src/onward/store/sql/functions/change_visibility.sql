-- Moves the end of a hand-out: to so many seconds from now. 0 gives the message back. Answers `changed`, `stale` or `gone`,
-- as delete_messages does, and the new end.
-- Called by: clients. Locks: the message; its receipt is read in a later statement. Twice: a little later.
create or replace function onward.change_visibility(
    p_tenant text, p_queue text, p_id uuid, p_receipt bigint, p_seconds float8,
    out outcome text, out ends_at timestamptz)
language plpgsql as $$
begin
    perform 1 from onward.queued q where q.msg_id = p_id and q.tenant = p_tenant for update;
    if not found then
        outcome := 'gone';
        return;
    end if;
    update onward.queued q set visible_at = onward.now() + make_interval(secs => p_seconds)
     where q.msg_id = p_id and q.tenant = p_tenant and q.queue = p_queue and q.receipt = p_receipt and p_receipt > 0
    returning q.visible_at into ends_at;
    outcome := case when found then 'changed' else 'stale' end;
    if found and p_seconds = 0 then
        perform onward.tell_queues(p_tenant, array[p_queue]);
    end if;
end
$$;
