-- Cancels a run: the first of two calls, `await_lanes` on the former owner is the second; only then may the
-- cancel be acknowledged, because a batch that is in flight may still journal a step.
--
-- Called by: clients. Locks: the messages of the run and of its parent, by id. Twice: the result is
--   there, and who owned the run.
-- Answers: null where there is no such run; `children` are the invoked runs that go with it, those among them that were
--   cancelled already: a canceller that died half-way had not come to their children.
create or replace function onward.cancel(
    p_tenant text, p_run uuid, out status text, out former bigint, out children uuid[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_parent uuid;
begin
    select r.parent into v_parent from onward.run r where r.run_id = p_run and r.tenant = p_tenant;
    if not found then
        return;
    end if;
    perform 1 from onward.message where msg_id in (p_run, v_parent) order by msg_id for update;
    delete from onward.message where msg_id = p_run returning owner into former;
    if found then
        insert into onward.run_result (run_id, status, former, completed_at, expires_at)
        values (p_run, 'cancelled', former, v_now, v_now + onward.kept(p_run));
        perform onward.clear_run(array[p_run], case when v_parent is not null then array[v_parent] end);
        perform onward.announce(array[p_run], v_parent is not null);
        perform pg_notify('onward_work', 'cancel ' || p_run);
    end if;
    select r.status, r.former into status, former from onward.run_result r where r.run_id = p_run;
    select array_agg(r.run_id) into children
      from onward.run r left join onward.run_result x on x.run_id = r.run_id
     where r.parent = p_run and (x.run_id is null or x.status = 'cancelled');
end
$$;
