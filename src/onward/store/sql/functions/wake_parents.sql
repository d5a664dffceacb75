-- Makes runs due that await a child which has ended without waking them (failed as poison). Polling for a
-- rare case: called by workers now and then. Locks: the parents' messages by id, skipping locked.
create or replace function onward.wake_parents() returns void
language sql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with parent as (
        select m.msg_id from onward.message m
         where m.visible_at > onward.now() and m.msg_id in (
                select p.run_id from onward.pending p join onward.run_result r on r.run_id = p.child
                 where p.kind = 'invoke' and p.child is not null limit 1000)
         order by m.msg_id for update of m skip locked)
    update onward.message m set visible_at = onward.now() from parent p where m.msg_id = p.msg_id;
$$;
