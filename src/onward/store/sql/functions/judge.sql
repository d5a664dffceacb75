-- What a run's worker read in signals that lie outside the database: which matches they fit, and which they do not. The
-- run is due then, and settled as if the database had seen it itself.
-- Called by: the run's worker. Locks: the run's message. Twice: a verdict is there already; it never changes, because
--   neither does the payload.
create or replace function onward.judge(p_run uuid, p_signals uuid[], p_matches text[], p_fits boolean[])
returns void
language plpgsql as $$
begin
    perform 1 from onward.message where msg_id = p_run for update;
    update onward.signal s
       set fits = s.fits || v.fits, unfit = s.unfit || v.unfit
      from (select i.signal, coalesce(array_agg(i.match::jsonb) filter (where i.fit), '{}') as fits,
                   coalesce(array_agg(i.match::jsonb) filter (where not i.fit), '{}') as unfit
              from unnest(p_signals, p_matches, p_fits) as i (signal, match, fit) group by i.signal) v
     where s.signal_id = v.signal and s.run_id = p_run;
    update onward.message set visible_at = onward.now() where msg_id = p_run;
end
$$;
