-- Who holds a run and when it is due, by the database's clock; an ended run has no holder and is never due.
-- Called by: why, the timeline. Reads only; no row where the tenant has no such run.
create or replace function onward.standing(p_tenant text, p_run uuid)
returns table (asked_at timestamptz, due_at timestamptz, owner bigint, deaths integer, open_version boolean,
               trouble text)
language sql volatile as $$
    select onward.now(), nullif(m.visible_at, 'infinity'), m.owner, coalesce(m.deaths, 0),
           coalesce(m.version = 0, false), m.trouble
      from onward.run r left join onward.message m on m.msg_id = r.run_id
     where r.run_id = p_run and r.tenant = p_tenant
$$;
