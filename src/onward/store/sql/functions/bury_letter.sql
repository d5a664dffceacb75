-- Puts a message that was handed out with the dead letters, for a reason of its receiver's: its body cannot be had.
-- Called by: clients. Locks: the message, then those of bury_letters. Twice: it is in another queue. False: it was handed
-- on, or its group is busy; then it comes again.
create or replace function onward.bury_letter(
    p_tenant text, p_queue text, p_id uuid, p_receipt bigint, p_reason text)
returns boolean
language plpgsql as $$
begin
    perform 1 from onward.queued q
      where q.msg_id = p_id and q.tenant = p_tenant and q.queue = p_queue and q.receipt = p_receipt for update;
    if not found then
        return false;
    end if;
    return onward.bury_letters(p_tenant, p_queue, array[p_id], p_reason) > 0;
end
$$;
