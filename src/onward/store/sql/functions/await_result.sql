-- A run's end, if it has come; if not, the caller's channel is told when it comes. An end that is committed while the
-- wait is being written is not told; the caller looks again soon.
-- p_for: for so many seconds; 0: the wait is written already, and holds.
-- Called by: clients, again after each wake-up or poll. Locks: none. No row: no such run.
create or replace function onward.await_result(p_tenant text, p_run uuid, p_channel text, p_for float8)
returns table (status text, output bytea, error bytea, workflow text, version integer)
language plpgsql as $$
begin
    if p_for > 0 and not exists (select 1 from onward.run_result x where x.run_id = p_run) then
        insert into onward.awaited as a (run_id, channel, until)
        values (p_run, p_channel, onward.now() + make_interval(secs => p_for))
        on conflict (run_id, channel) do update set until = excluded.until;
    end if;
    return query
        select coalesce(x.status, 'running'), x.output, x.error, r.workflow, r.version
          from onward.run r left join onward.run_result x on x.run_id = r.run_id
         where r.run_id = p_run and r.tenant = p_tenant;
end
$$;
