-- Wakes whoever waits for these runs' results, and workers where an ended run was invoked by another.
-- Called by: workers, after the commit that ended them and outside its transaction: a NOTIFY takes a lock that
-- all committing sessions share. A waiter writes its row before it reads the result, so one of the two sees the
-- other; a lost notify costs it a poll.
create or replace function onward.announce(p_runs uuid[], p_work boolean) returns void
language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select pg_notify(a.channel, a.run_id::text) from onward.awaited a where a.run_id = any (p_runs);
    select pg_notify('onward_work', '') where p_work;
$$;
