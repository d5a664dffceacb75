-- Which of these runs have ended (or are not there any more). `await_result` for all waits of a client together; what
-- a run gave, and whether the caller may know, is for that one to say.
-- p_for: for so many seconds the waits are written again first; 0: they are written already, and hold.
-- Called by: clients, once a second while they wait. Locks: the rows of the caller's own channel, by run.
-- Twice: the same waits hold a little longer.
create or replace function onward.await_results(p_runs uuid[], p_channel text, p_for float8)
returns setof uuid
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    if p_for > 0 then
        insert into onward.awaited as a (run_id, channel, until)
        select w.run, p_channel, onward.now() + make_interval(secs => p_for)
          from unnest(p_runs) as w (run) order by w.run
        on conflict (run_id, channel) do update set until = excluded.until;
    end if;
    return query
        select w.run from unnest(p_runs) as w (run)
         where not exists (select 1 from onward.message m where m.msg_id = w.run);
end
$$;
