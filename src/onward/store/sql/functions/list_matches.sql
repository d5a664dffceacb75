-- What a run's waits for an event match. Called by: clients, before they send a payload that the database cannot search:
-- who sends it can say at once whether it fits; whatever waits later asks the run's worker. Reads only.
create or replace function onward.list_matches(p_tenant text, p_run uuid, p_event text) returns setof text
language sql stable as $$
    select distinct p.match::text
      from onward.pending p join onward.message m on m.msg_id = p.run_id and m.tenant = p_tenant
     where p.run_id = p_run and p.event = p_event and p.match is not null
$$;
