-- Wakes whoever waits for messages of these queues. A wait that is just being written is missed; it looks again soon.
-- Called by: whatever makes messages ready, at its end. A NOTIFY makes committing sessions wait for each other, so queues
-- that nobody waits for are not told. Reads only.
create or replace function onward.tell_queues(p_tenant text, p_queues text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    perform pg_notify('onward_queue', p_tenant || '/' || w.queue)
       from onward.queue_wait w
      where w.tenant = p_tenant and w.queue = any (p_queues) and w.until > onward.now();
end
$$;
