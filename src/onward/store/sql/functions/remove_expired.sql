-- Removes runs that have ended and whose retention has passed: all their rows, of at most p_limit runs a call. What they
-- have in the payload store goes afterwards, by `removed`, which is written here: a crash in between leaves work to do.
--
-- Called by: retention. Locks: `removed`, so that one call at a time does this (a run and the one that it borrows from,
--   removed side by side, would each leave the tie to the other); then the runs, skipping locked: a rerun holds its
--   original while it copies. What follows reads in later statements.
-- Twice: the runs are gone, the next ones are taken.
-- Kept a while longer are
--   a child whose parent still runs: a parent that replays would start it again. It is looked at again an hour later;
--   a cancelled run for ten minutes: a batch that was in flight may still journal a step (see cancel).
-- Ties: whoever got pointers from a run that goes, borrows from then on from all that it had borrowed from.
-- Objects that were kept only because this run pointed to them are due again (see list_removed).
-- Without a payload store, which is recorded before the first object is written, there are no objects.
-- Answers: how many were removed, and how many were looked at: fewer than p_limit means that there are no more.
create or replace function onward.remove_expired(p_limit integer, out removed integer, out looked_at integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now     timestamptz := onward.now();
    v_expired uuid[];
    v_gone    uuid[];
begin
    lock table onward.removed in share row exclusive mode;
    with expired as (
        select r.run_id
          from onward.run_result x join onward.run r on r.run_id = x.run_id
         where x.expires_at <= v_now
           and (x.status <> 'cancelled' or x.completed_at <= v_now - interval '10 minutes')
         order by x.expires_at limit p_limit
           for update of r skip locked)
    select coalesce(array_agg(run_id), '{}') into v_expired from expired;

    with awaited as (
        update onward.run_result x set expires_at = v_now + interval '1 hour'
          from onward.run r join onward.message m on m.msg_id = r.parent
         where r.run_id = any (v_expired) and x.run_id = r.run_id
        returning x.run_id)
    select array(select unnest(v_expired) except select run_id from awaited) into v_gone;
    removed := cardinality(v_gone);
    looked_at := cardinality(v_expired);

    with recursive way (owner, run_id) as (
        select id, id from unnest(v_gone) as id
        union
        select owner, borrower from onward.borrowed where borrower = any (v_gone)
        union
        select w.owner, b.borrower
          from way w join onward.borrowed b on b.owner = w.run_id
         where w.run_id = any (v_gone))
    insert into onward.borrowed (owner, borrower)
    select w.owner, w.run_id
      from way w join onward.run r on r.run_id = w.run_id
     where w.run_id <> all (v_gone)
    on conflict do nothing;

    update onward.removed d
       set removed_at = greatest(v_now, nullif(removed_at, 'infinity') + interval '1 microsecond')
     where run_id in (select owner from onward.borrowed where borrower = any (v_gone));
    insert into onward.removed as d (run_id, tenant, workflow, removed_at)
    select run_id, tenant, workflow, v_now from onward.run
     where run_id = any (v_gone) and exists (select 1 from onward.setting where name = 'payload_url')
    on conflict (run_id) do update
       set removed_at = greatest(v_now, nullif(d.removed_at, 'infinity') + interval '1 microsecond');

    insert into onward.tally (tenant, workflow, metric, label, count)
    select r.tenant, r.workflow, 'removed', x.status, count(*)
      from onward.run r join onward.run_result x on x.run_id = r.run_id
     where r.run_id = any (v_gone) group by 1, 2, 4;
    delete from onward.borrowed where borrower = any (v_gone);
    delete from onward.step where run_id = any (v_gone);
    delete from onward.pending where run_id = any (v_gone);
    delete from onward.signal where run_id = any (v_gone);
    delete from onward.awaited where run_id = any (v_gone);
    delete from onward.run_input where run_id = any (v_gone);
    delete from onward.run_result where run_id = any (v_gone);
    delete from onward.run where run_id = any (v_gone);
end
$$;
