-- What became of an attempt: `done`; `retry` in so many seconds; `dead`: it lies in the tenant's queue webhooks.dead now,
-- whence resend_letters sends it again; `release`: the deliverer was told to stop, and the attempt does not count.
-- Called by: deliverers. Locks: the delivery, by its receipt. Twice, or after it was handed on: false, nothing happens.
create or replace function onward.settle_delivery(
    p_id uuid, p_receipt bigint, p_outcome text, p_error text, p_delay float8)
returns boolean
language plpgsql as $$
declare
    v_now timestamptz := onward.now();
    v_was onward.delivery;
begin
    perform 1 from onward.delivery d where d.delivery_id = p_id for update;
    select * into v_was from onward.delivery d where d.delivery_id = p_id and d.receipt = p_receipt;
    if not found then
        return false;
    end if;
    if p_outcome = 'retry' then
        update onward.delivery set visible_at = v_now + make_interval(secs => p_delay), error = p_error
         where delivery_id = p_id;
    elsif p_outcome = 'release' then
        update onward.delivery set visible_at = v_now, attempts = attempts - 1 where delivery_id = p_id;
        perform pg_notify('onward_delivery', '');
    else
        delete from onward.delivery where delivery_id = p_id;
    end if;
    if p_outcome = 'dead' then
        insert into onward.queued
               (msg_id, tenant, queue, head, visible_at, enqueued_at, body, search, dead)
        select p_id, v_was.tenant, 'webhooks.dead', true, v_now, v_was.created_at, v_was.body, v_was.search,
               jsonb_strip_nulls(jsonb_build_object(
                   'queue', 'webhooks', 'reason', p_error, 'receives', v_was.attempts, 'at', v_now,
                   'subscription', v_was.subscription_id, 'topic', v_was.topic,
                   'url', (select s.target from onward.subscription s where s.subscription_id = v_was.subscription_id)))
        on conflict do nothing;
        perform onward.tell_queues(v_was.tenant, array['webhooks.dead']);
    end if;
    return true;
end
$$;
