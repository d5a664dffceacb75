-- The signals of a run that no wait has taken, in the order in which they came. Called by: why. Reads only.
create or replace function onward.list_signals(p_tenant text, p_run uuid)
returns table (event text, payload bytea, sent_at timestamptz)
language sql stable as $$
    select s.event, s.payload, s.sent_at
      from onward.signal s join onward.run r on r.run_id = s.run_id and r.tenant = p_tenant
     where s.run_id = p_run and not s.taken
     order by s.seq
$$;
