-- Hands out up to p_n due runs of what the worker serves, each with its input, journal and back-offs.
--
-- Called by: workers. Locks: the worker's row for key share (a reaped worker is refused, and cannot be reaped in
--   the middle), then due messages, skipping locked ones, so that claims never wait for anybody.
-- Safe when the answer is lost: the runs are owned by a live worker that does not know them; `attend` tells it.
-- Journal and back-offs are read in a statement after the one that locked: a signal or a late batch that held
--   the lock would be missing from the locking statement's snapshot, and journalled steps would run again.
-- Settles only what its last owner suspended (cached_by, set by a suspend that let go, cleared here): then the pendings are exactly what the body waits for. A run that
--   was freed from a dead worker may still have the pending of a wait that its body had given up (a race that was
--   decided); settling would hand a signal to it, and the wait that comes next would never get it. There the body
--   replays first, and its own register or suspend carries the true list.
-- `begun`: for the rows that this claim has settled, and nobody was told of, when they began; null for the others.
-- A reaped worker gets the error OW001.
create or replace function onward.claim(p_worker bigint, p_n integer)
returns table (
    run_id uuid, tenant text, workflow text, version integer, receipt bigint, parent uuid, started_at timestamptz,
    input bytea, deaths integer, partial boolean,
    names text[], kinds text[], outputs bytea[], errors bytea[], attempts integer[], times timestamptz[],
    begun timestamptz[], retry_names text[], retry_attempts integer[], retry_due boolean[], trace text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_now timestamptz := onward.now();
    v_ids   uuid[];
    v_mine  boolean[];   -- whose coroutine this worker may still have
    v_exact uuid[];      -- whose pendings are exactly what the body waits for
    v_open  uuid[];      -- whose version is not bound yet
    v_new   boolean;     -- all of them are handed out for the first time
begin
    perform 1 from onward.worker where worker_id = p_worker for key share;
    if not found then
        raise exception 'worker % was declared dead', p_worker using errcode = 'OW001';
    end if;

    -- what the lock returns of the locked rows is fresh; everything else is read in statements of its own
    select array_agg(due.msg_id), array_agg(coalesce(due.cached_by = p_worker, false)),
           array_agg(due.msg_id) filter (where due.cached_by is not null),
           array_agg(due.msg_id) filter (where due.version = 0),
           bool_and(due.receipt = 0)
      into v_ids, v_mine, v_exact, v_open, v_new
      from (
        select m.*
          from (select s.workflow, v.version from onward.serves s
                 cross join lateral (values (s.version), (0)) as v (version)
                 where s.worker_id = p_worker group by 1, 2 order by random()) served
          cross join lateral (
                select m.msg_id, m.cached_by, m.version, m.receipt from onward.message m
                 where m.queue = '__wf_' || served.workflow and m.version = served.version
                   and m.owner is null and not m.paused and m.visible_at <= v_now
                 order by m.visible_at limit p_n for update skip locked) m
         limit p_n) due;
    if v_ids is null then
        return;
    end if;
    if v_open is not null then
        perform onward.bind_versions(p_worker, v_open);
    end if;
    if v_new then       -- nobody had them before: no journal, nothing pending (a rerun has a journal, and receipt 1)
        return query
            update onward.message m
               set owner = p_worker, receipt = m.receipt + 1, visible_at = 'infinity'
              from unnest(v_ids) as c (id)
              join onward.run r on r.run_id = c.id
              join onward.run_input i on i.run_id = c.id
             where m.msg_id = c.id
            returning r.run_id, r.tenant, r.workflow, r.version, m.receipt, r.parent, r.started_at, i.input,
                      m.deaths, false, null::text[], null::text[], null::bytea[], null::bytea[],
                      null::integer[], null::timestamptz[], null::timestamptz[], null::text[], null::integer[],
                      null::boolean[], r.trace::text;
        return;
    end if;

    if v_exact is not null then
        perform onward.settle(v_exact, v_now);
    end if;
    update onward.message m
       set owner = p_worker, receipt = m.receipt + 1, executing = false, reason = null, trouble = null, cached_by = null,
           visible_at = coalesce((select min(p.deadline) from onward.pending p
                                   where p.run_id = m.msg_id and p.deadline > v_now), 'infinity')
     where m.msg_id = any (v_ids);
    return query
        select r.run_id, r.tenant, r.workflow, r.version, m.receipt, r.parent, r.started_at,
               i.input,
               case when m.deaths = 0 then 0
                    when exists (select 1 from onward.step s where s.seq > m.progress and s.run_id = c.id) then 0
                    else m.deaths end,       -- it got on since its last death: no suspect any more
               c.mine,
               j.names, j.kinds, j.outputs, j.errors, j.attempts, j.times, j.begun, b.names, b.attempts, b.due, r.trace::text
          from unnest(v_ids, v_mine) as c (id, mine)
          join onward.message m on m.msg_id = c.id
          join onward.run r on r.run_id = c.id
          join onward.run_input i on i.run_id = c.id
         cross join lateral (
                select array_agg(s.name) as names, array_agg(s.kind::text) as kinds, array_agg(s.output) as outputs,
                       array_agg(s.error) as errors, array_agg(s.attempt) as attempts,
                       array_agg(s.completed_at) as times,
                       array_agg(case when s.seq > m.cached_seq and c.id = any (v_exact) then s.started_at end) as begun
                  from (select * from onward.step s
                         where s.run_id = c.id and s.seq > case when c.mine then m.cached_seq else 0 end
                         order by s.seq) s) j
         cross join lateral (
                select array_agg(p.name) as names, array_agg(p.attempt) as attempts,
                       array_agg(p.deadline <= v_now) as due
                  from onward.pending p where p.run_id = c.id and p.kind = 'retry') b;
end
$$;
