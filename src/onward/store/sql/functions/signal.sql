-- Signals runs. Answers one row an item: `resolved` (a wait gets it), `buffered` (the next wait that matches
-- will), `dropped` (nobody waits and p_buffer is false), `ended`, `unknown`.
--
-- Called by: clients. Locks: the runs' messages by id. Reads pendings in a later statement: in the same one a
--   run that suspends just now would be missed and sleep for ever.
-- Only appends and makes the run due; never journals, never touches owner or pause: the owner's lane journals,
--   so that its memory and the journal agree on the order. One notify a call.
-- p_searches: null for a payload that lies outside; p_fits and p_unfit: matches that its sender compared, as lists of JSON.
-- Twice: signal ids are the sender's; a signal that is known is not appended again. `appended`: this one was; then the
--   rest tells its sender whose trace it belongs to.
create or replace function onward.signal(
    p_tenant text, p_ids uuid[], p_runs uuid[], p_events text[], p_payloads bytea[], p_searches text[],
    p_buffers boolean[], p_fits text[] default null, p_unfit text[] default null)
returns table (outcome text, appended boolean, workflow text, version integer, trace text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_item record;
    v_wake boolean := false;
begin
    perform 1 from onward.message where msg_id = any (p_runs) and tenant = p_tenant order by msg_id for update;
    for v_item in
        select i.*, m.msg_id, r.run_id is not null as known, r.workflow, r.version, r.trace
          from unnest(p_ids, p_runs, p_events, p_payloads, p_searches, p_buffers, p_fits, p_unfit) with ordinality
               as i (id, run, event, payload, search, buffer, fits, unfit, ord)
          left join onward.message m on m.msg_id = i.run and m.tenant = p_tenant
          left join onward.run r on r.run_id = i.run and r.tenant = p_tenant
         order by i.ord
    loop
        appended := false;
        workflow := v_item.workflow;
        version := v_item.version;
        trace := v_item.trace;
        if v_item.msg_id is null then
            outcome := case when v_item.known then 'ended' else 'unknown' end;
            return next;
            continue;
        end if;
        insert into onward.signal (signal_id, run_id, event, payload, search, fits, unfit, sent_at)
        values (v_item.id, v_item.run, v_item.event, v_item.payload, v_item.search::jsonb,
                array(select jsonb_array_elements(v_item.fits::jsonb)),
                array(select jsonb_array_elements(v_item.unfit::jsonb)), onward.now())
        on conflict do nothing;
        appended := found;
        outcome := case when onward.is_answer(v_item.run, v_item.event, v_item.id) then 'resolved'
                        -- its worker has to read it; until then nobody can say who gets it
                        when exists (select 1 from onward.undecided(v_item.run) u where u.signal_id = v_item.id)
                            then 'undecided'
                        when v_item.buffer then 'buffered' else 'dropped' end;
        if outcome in ('resolved', 'undecided') then
            update onward.message set visible_at = onward.now() where msg_id = v_item.run;
            v_wake := true;
        elsif outcome = 'dropped' then
            delete from onward.signal where signal_id = v_item.id;
            appended := false;
        end if;
        outcome := replace(outcome, 'undecided', 'buffered');
        return next;
    end loop;
    insert into onward.tally (tenant, workflow, metric, label, count)
    select r.tenant, r.workflow, 'signal', s.event, count(*)
      from onward.signal s join onward.run r on r.run_id = s.run_id
     where s.signal_id = any (p_ids) group by 1, 2, 4;
    if v_wake then
        perform pg_notify('onward_work', 'signal');
    end if;
end
$$;
