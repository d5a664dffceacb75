-- Is there something to settle for a run that was settled just now? One signal a call is journalled, so there may be.
-- A back-off is no reason: its owner knows it, and only its own commit ends it.
-- Called by: commit_asks, under the run's message lock.
create or replace function onward.is_due(p_run uuid, p_now timestamptz) returns boolean
language sql stable as $$
    select exists (
        select 1 from onward.pending p
         where p.run_id = p_run and p.kind <> 'retry'
           and (p.deadline <= p_now
                or exists (select 1 from onward.run_result r where r.run_id = p.child)
                or exists (select 1 from onward.signal s
                            where s.run_id = p_run and s.event = p.event and not s.taken
                              and onward.fits(p.match, s.search, s.fits))))
        or exists (select 1 from onward.undecided(p_run))
$$;
