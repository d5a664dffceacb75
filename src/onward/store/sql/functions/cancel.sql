-- Cancels a run: the first of two calls, `await_lanes` on the former owner is the second; only then may the
-- cancel be acknowledged, because a batch that is in flight may still journal a step.
--
-- Called by: clients. Locks: the messages of the run and of its parent, by id. Twice: the result is
--   there, and who owned the run.
-- Answers: null where there is no such run; `children` are the invoked runs that go with it, those among them that were
--   cancelled already: a canceller that died half-way had not come to their children. `ended`: when this call ended the
--   run; null where it had ended. The rest tells the canceller whose trace that belongs to.
create or replace function onward.cancel(
    p_tenant text, p_run uuid, out status text, out former bigint, out children uuid[], out ended timestamptz,
    out workflow text, out version integer, out trace text, out started timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now    timestamptz := onward.now();
    v_parent uuid;
begin
    select r.parent, r.workflow, r.version, r.trace, r.started_at into v_parent, workflow, version, trace, started
      from onward.run r where r.run_id = p_run and r.tenant = p_tenant;
    if not found then
        return;
    end if;
    perform 1 from onward.message where msg_id in (p_run, v_parent) order by msg_id for update;
    delete from onward.message where msg_id = p_run returning owner into former;
    if found then
        with over as (
            insert into onward.run_result as x (run_id, status, former, completed_at, expires_at,
                                                tenant, workflow, started_at)
            select p_run, 'cancelled', former, v_now, v_now + onward.kept(r.retention),
                   r.tenant, r.workflow, r.started_at
              from onward.run r where r.run_id = p_run
            returning x.tenant, x.workflow, x.started_at)
        delete from onward.running g using over o
         where g.tenant = o.tenant and g.workflow = o.workflow and g.started_at = o.started_at and g.run_id = p_run;
        perform onward.clear_run(array[p_run], case when v_parent is not null then array[v_parent] end);
        perform onward.count_ends(array[p_run]);
        perform onward.announce(array[p_run], v_parent is not null);
        perform pg_notify('onward_work', 'cancel ' || p_run);
        ended := v_now;
    end if;
    select r.status, r.former into status, former from onward.run_result r where r.run_id = p_run;
    select array_agg(r.run_id) into children
      from onward.run r left join onward.run_result x on x.run_id = r.run_id
     where r.parent = p_run and (x.run_id is null or x.status = 'cancelled');
end
$$;
