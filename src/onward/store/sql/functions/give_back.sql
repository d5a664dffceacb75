-- Takes hand-outs back that nobody has looked at: they do not count, and the messages are ready at once, in their old places.
-- p_unfit: the match that their bodies, which lie outside, do not fit; the last fifty are remembered.
-- Called by: clients, for a receiver that is gone, and for what a match does not fit. Locks: the messages by seq; receipts
-- are read in a later statement. Twice: the receipts are no longer theirs.
create or replace function onward.give_back(
    p_tenant text, p_queue text, p_ids uuid[], p_receipts bigint[], p_unfit text)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    perform 1 from onward.queued q
      where q.msg_id = any (p_ids) and q.tenant = p_tenant and q.queue = p_queue order by q.seq for update;
    update onward.queued q
       set visible_at = least(q.enqueued_at, onward.now()), receipt = q.receipt + 1, read_count = q.read_count - 1,
           unfit = case when p_unfit is null then q.unfit
                        else array(select u from unnest(q.unfit || p_unfit::jsonb) with ordinality as m (u, n)
                                    order by n offset greatest(cardinality(q.unfit) - 49, 0)) end
      from unnest(p_ids, p_receipts) as i (id, receipt)
     where q.msg_id = i.id and q.receipt = i.receipt and q.tenant = p_tenant and q.queue = p_queue;
    perform onward.tell_queues(p_tenant, array[p_queue]);
end
$$;
