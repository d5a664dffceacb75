-- A run's whole journal, in the order of commit. Called by an owner whose cached coroutine is gone (nobody but
-- its own lane adds to an owned run's journal, so reading it outside the claim is safe), and by readers.
create or replace function onward.journal(p_run uuid)
returns table (name text, kind text, output bytea, error bytea, attempt integer, completed_at timestamptz)
language sql stable as $$
    select s.name, s.kind, s.output, s.error, s.attempt, s.completed_at
      from onward.step s where s.run_id = p_run order by s.seq
$$;
