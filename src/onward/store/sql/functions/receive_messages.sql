-- Hands out up to p_max messages of a queue that are ready, those first that have been ready longest.
--
-- Called by: clients. Locks: messages, skipping locked ones, so that receivers never wait for anybody; of letters that
--   are dead also their groups' rows, skipping locked.
-- Why no two messages of a group are ever out at once, without any lock on the group: only its head can be handed out.
--   That one message is locked here, checked again by the lock (who waited for nothing reads the newest row), and moved
--   out of sight in a later statement; another becomes head only in the transaction that takes this one away, which
--   needs the lock on it. A consumer that dies leaves the head behind: it is ready again when its visibility is over,
--   and the others of its group are still behind it.
-- p_max_receives: a message that was handed out so often is not handed out again but put with the dead letters.
-- p_match: only messages whose body contains this. A body that lies outside is handed out for comparison; where it does
--   not fit, the client gives it back with that match (give_back), and it is not handed out for it again.
-- Twice: other messages. Those of an answer that was lost are ready again when their visibility is over.
create or replace function onward.receive_messages(
    p_tenant text, p_queue text, p_max integer, p_visibility float8, p_max_receives integer, p_match text)
returns table (
    msg_id uuid, body bytea, headers bytea, dead text, group_id text, read_count integer, enqueued_at timestamptz,
    visible_at timestamptz, receipt bigint)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now   timestamptz := onward.now();
    v_match jsonb := p_match;
    v_ids   uuid[];
    v_dead  uuid[];
    v_all   uuid[] := '{}';
    v_busy  uuid[] := '{}';
begin
    for v_round in 1 .. 100 loop       -- where letters are dead, more of them at a time
        select array_agg(due.msg_id) filter (where not due.dead), array_agg(due.msg_id) filter (where due.dead)
          into v_ids, v_dead
          from (select q.msg_id, coalesce(q.read_count >= p_max_receives, false) as dead
                  from onward.queued q
                 where q.tenant = p_tenant and q.queue = p_queue and q.head and q.visible_at <= v_now
                   and q.msg_id <> all (v_busy)
                   and (v_match is null
                        or case when onward.is_pointer(q.body) then v_match <> all (q.unfit)
                                else coalesce(q.search, convert_from(q.body, 'UTF8')::jsonb) @> v_match end)
                 order by q.visible_at, q.seq
                 limit greatest(p_max - cardinality(v_all), case when v_round > 1 then 100 else 0 end)
                   for update skip locked) due;
        v_ids := v_ids[1 : p_max - cardinality(v_all)];
        if cardinality(v_ids) > 0 then
            update onward.queued q
               set visible_at = v_now + make_interval(secs => p_visibility), receipt = q.receipt + 1,
                   read_count = q.read_count + 1
             where q.msg_id = any (v_ids);
            v_all := v_all || v_ids;
        end if;
        exit when v_dead is null;
        perform onward.bury_letters(
            p_tenant, p_queue, v_dead, format('received %s times and never deleted', p_max_receives));
        exit when cardinality(v_all) >= p_max;
        v_busy := v_busy || v_dead;    -- those that could not be buried now are not looked at again
    end loop;
    return query
        select q.msg_id, q.body, q.headers, q.dead::text, q.group_id, q.read_count, q.enqueued_at, q.visible_at,
               q.receipt
          from unnest(v_all) with ordinality as h (id, ord) join onward.queued q on q.msg_id = h.id
         order by h.ord;
end
$$;
