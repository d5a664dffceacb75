-- What an owner has to look at: `due` (a deadline passed, a signal came), `paused`, `gone` (not its own any
-- more) of the runs that it names, and `unknown`: owned by it, but not among them (a claim's answer was lost).
-- Called by: workers, on a wake-up and every second; never while a claim of the same worker is out. Reads only.
create or replace function onward.attend(p_worker bigint, p_runs uuid[], p_receipts bigint[], p_all boolean)
returns table (run_id uuid, receipt bigint, news text)
language sql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select k.run, k.receipt,
           case when m.msg_id is null and x.status = 'cancelled' then 'cancelled'
                when m.msg_id is null or m.owner is distinct from p_worker or m.receipt <> k.receipt then 'gone'
                when m.paused then 'paused' else 'due' end
      from unnest(p_runs, p_receipts) as k (run, receipt)
      left join onward.message m on m.msg_id = k.run
      left join onward.run_result x on x.run_id = k.run
     where m.msg_id is null or m.owner is distinct from p_worker or m.receipt <> k.receipt
        or m.paused or m.visible_at <= onward.now()
    union all
    select m.msg_id, m.receipt, 'unknown'
      from onward.message m
     where p_all and m.owner = p_worker and m.msg_id <> all (p_runs)
$$;
