-- Frees what a dead worker owned.
--
-- Called by: reap and retire, which hold the worker's row for update, so that no claim of it is under way.
-- Locks: its lane rows (this waits for batches in flight; later ones find no lane), then its messages by id.
-- p_violent: it died. A run that dies with its worker again and again is poison: deaths are counted since the
--   last journalled progress. At the first one anything owned counts as a suspect; a suspect is marked when it
--   executes, so that from then on only runs that were executing are counted. The fifth fails the run.
create or replace function onward.bury(p_worker bigint, p_violent boolean) returns bigint
language plpgsql as $$
declare
    v_now  timestamptz := onward.now();
    v_ids  uuid[];
    v_dead uuid[];
begin
    delete from onward.worker where worker_id = p_worker;
    perform 1 from onward.lane where worker_id = p_worker order by lane for update;
    delete from onward.lane where worker_id = p_worker;
    delete from onward.serves where worker_id = p_worker;
    select array_agg(msg_id) into v_ids from (
        select m.msg_id from onward.message m where m.owner = p_worker order by m.msg_id for update) locked;
    if v_ids is null then
        return 0;
    end if;

    update onward.message m
       set owner = null, visible_at = v_now, executing = false,
           progress = case when p_violent then j.last else m.progress end,
           deaths = case when not p_violent then m.deaths
                             when j.last > m.progress then 1
                             when m.deaths = 0 or m.executing then m.deaths + 1
                             else m.deaths end
      from (select id, coalesce((select max(s.seq) from onward.step s where s.run_id = id), 0) as last
              from unnest(v_ids) as id) j
     where m.msg_id = j.id;

    select array_agg(m.msg_id) into v_dead from onward.message m
     where m.msg_id = any (v_ids) and m.deaths >= 5;
    if v_dead is not null then
        perform onward.fail_poison(v_dead, v_now);
    end if;
    return cardinality(v_ids);
end
$$;
