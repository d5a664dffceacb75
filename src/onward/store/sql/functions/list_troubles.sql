-- Runs of all tenants that stand still, by cause: `stranded` (due, and no live worker serves their version),
-- `parked`, `paused`, and `held` (owned by a worker whose lease has lapsed, with nobody there to free them).
-- One example each. Called by: doctor. Reads only; goes through every message once, so it is for people, not
-- for a loop.
create or replace function onward.list_troubles()
returns table (trouble text, workflow text, version integer, runs bigint, run_id uuid, tenant text, reason text)
language sql volatile as $$
    with moment as materialized (select onward.now() as at),
    served as materialized (
        select distinct s.workflow, v.version
          from onward.serves s join onward.worker w using (worker_id)
         cross join lateral (values (s.version), (0)) as v (version)
         where w.lease_until > (select at from moment)),
    standing as (
        select m.msg_id, m.tenant, substr(m.queue, 6) as workflow, m.version, m.reason,
               case when m.paused then 'paused'
                    when m.owner is not null then
                        case when w.lease_until > (select at from moment) then null else 'held' end
                    when m.reason is not null then 'parked'
                    when m.visible_at <= (select at from moment)
                         and (substr(m.queue, 6), m.version) not in (select s.workflow, s.version from served s)
                        then 'stranded' end as trouble
          from onward.message m
          left join onward.worker w on w.worker_id = m.owner
         where starts_with(m.queue, '__wf_'))
    select s.trouble, s.workflow, nullif(s.version, 0), count(*),
           (array_agg(s.msg_id order by s.msg_id))[1], (array_agg(s.tenant order by s.msg_id))[1],
           (array_agg(s.reason order by s.msg_id))[1]
      from standing s
     where s.trouble is not null
     group by s.trouble, s.workflow, s.version
     order by s.trouble, s.workflow, s.version
$$;
