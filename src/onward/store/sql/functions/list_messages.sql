-- What lies in a queue, in the order in which it would be handed out; of each group the first. Called by: clients, for
-- people. Reads only: hands nothing out.
create or replace function onward.list_messages(p_tenant text, p_queue text, p_limit integer)
returns table (
    msg_id uuid, body bytea, headers bytea, dead text, group_id text, read_count integer, enqueued_at timestamptz,
    visible_at timestamptz, receipt bigint)
language sql volatile as $$
    select q.msg_id, q.body, q.headers, q.dead::text, q.group_id, q.read_count, q.enqueued_at, q.visible_at, 0::bigint
      from onward.queued q
     where q.tenant = p_tenant and q.queue = p_queue and q.head
     order by q.visible_at, q.seq limit p_limit
$$;
