-- Signals runs. Answers one row an item: `resolved` (a wait gets it), `buffered` (the next wait that matches
-- will), `dropped` (nobody waits and p_buffer is false), `ended`, `unknown`.
--
-- Called by: clients. Locks: the runs' messages by id. Reads pendings in a later statement: in the same one a
--   run that suspends just now would be missed and sleep for ever.
-- Only appends and makes the run due; never journals, never touches owner or pause: the owner's lane journals,
--   so that its memory and the journal agree on the order. One notify a call.
-- Twice: signal ids are the sender's; a signal that is known is not appended again.
create or replace function onward.signal(
    p_tenant text, p_ids uuid[], p_runs uuid[], p_events text[], p_payloads bytea[], p_searches text[],
    p_buffers boolean[])
returns table (outcome text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_item record;
    v_wake boolean := false;
begin
    perform 1 from onward.message where msg_id = any (p_runs) and tenant = p_tenant order by msg_id for update;
    for v_item in
        select i.*, m.msg_id, exists (select 1 from onward.run r where r.run_id = i.run and r.tenant = p_tenant) as known
          from unnest(p_ids, p_runs, p_events, p_payloads, p_searches, p_buffers) with ordinality
               as i (id, run, event, payload, search, buffer, ord)
          left join onward.message m on m.msg_id = i.run and m.tenant = p_tenant
         order by i.ord
    loop
        if v_item.msg_id is null then
            outcome := case when v_item.known then 'ended' else 'unknown' end;
            return next;
            continue;
        end if;
        insert into onward.signal (signal_id, run_id, event, payload, search, sent_at)
        values (v_item.id, v_item.run, v_item.event, v_item.payload, v_item.search::jsonb, onward.now())
        on conflict do nothing;
        outcome := 'buffered';
        if onward.is_answer(v_item.run, v_item.event, v_item.id) then
            update onward.message set visible_at = onward.now() where msg_id = v_item.run;
            v_wake := true;
            outcome := 'resolved';
        elsif not v_item.buffer then
            delete from onward.signal where signal_id = v_item.id;
            outcome := 'dropped';
        end if;
        return next;
    end loop;
    if v_wake then
        perform pg_notify('onward_work', 'signal');
    end if;
end
$$;
