-- In how many seconds the next run of what the worker serves is due; null: none has a deadline.
-- Called by: idle workers, to poll when it is worth it. Reads only, one index probe a version.
create or replace function onward.next_due(p_worker bigint) returns float8
language sql volatile as $$
    select extract(epoch from min(m.visible_at) - onward.now())
      from (select s.workflow, v.version from onward.serves s
             cross join lateral (values (s.version), (0)) as v (version)
             where s.worker_id = p_worker group by 1, 2) served
      cross join lateral (
            select m.visible_at from onward.message m
             where m.queue = '__wf_' || served.workflow and m.version = served.version
               and m.owner is null and not m.paused and m.visible_at < 'infinity'
             order by m.visible_at limit 1) m
$$;
