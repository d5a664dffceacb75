-- Signals that lie outside the database and that a wait of the run might match: nobody has read them for it yet. While
-- there is one, nothing is settled for the run, since an older signal goes before a newer one.
-- Called by: settle, is_due, commit_asks, signal, under the run's message lock.
create or replace function onward.undecided(p_run uuid)
returns table (signal_id uuid, payload bytea, match jsonb)
language sql stable as $$
    select s.signal_id, s.payload, p.match
      from onward.signal s
      join onward.pending p on p.run_id = s.run_id and p.event = s.event
     where s.run_id = p_run and s.search is null and not s.taken
       and p.match is not null and p.match <> all (s.fits) and p.match <> all (s.unfit)
$$;
