-- Every pointer in the rows of some runs, of all tenants: where it is, and what it is.
-- Called by: payload verify, list_needed. Reads only.
create or replace function onward.list_pointers(p_runs uuid[])
returns table (run_id uuid, part text, name text, pointer bytea)
language sql stable as $$
    select s.run_id, 'step', s.name, s.output
      from onward.step s where s.run_id = any (p_runs) and onward.is_pointer(s.output)
    union all
    select i.run_id, 'input', null, i.input
      from onward.run_input i where i.run_id = any (p_runs) and onward.is_pointer(i.input)
    union all
    select x.run_id, 'output', null, x.output
      from onward.run_result x where x.run_id = any (p_runs) and onward.is_pointer(x.output)
    union all
    select g.run_id, 'signal', g.event, g.payload
      from onward.signal g where g.run_id = any (p_runs) and onward.is_pointer(g.payload)
$$;
