-- Journals the results of steps. The hot path: one insert for the whole batch.
--
-- Called by: commit, behind the lane's gate. Locks: none on the messages: a thousand runs' steps would otherwise
--   write a thousand message rows. The gate is what makes the check safe: the fence is read in this statement's
--   snapshot, and nobody else can own the run before this lane's batch has ended.
-- Answers: null when every step is `ok`; else one word an item: ok, paused (journalled, and the run is to be handed
--   back before its next step), conflict (another hand-out's row is there:
--   release and replay), gone (the run has ended), cancelled, lost (another hand-out is the current one).
create or replace function onward.commit_steps(
    p_worker bigint, p_now timestamptz, p_runs uuid[], p_receipts bigint[], p_names text[], p_kinds text[],
    p_outputs bytea[], p_errors bytea[], p_attempts integer[], p_seconds float8[])
returns text[]
language plpgsql as $$
declare
    v_done   bigint;
    v_paused boolean;
begin
    with item as (
        select * from unnest(p_runs, p_receipts, p_names, p_kinds, p_outputs, p_errors, p_attempts, p_seconds)
            with ordinality as i (run, receipt, name, kind, output, error, attempt, seconds, ord)),
    fenced as (
        select i.*, m.paused from item i
          join onward.message m on m.msg_id = i.run and m.owner = p_worker and m.receipt = i.receipt),
    done as (
        insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
        select f.run, f.name, f.kind, f.output, f.error, f.attempt, f.receipt,
               p_now - make_interval(secs => f.seconds), p_now
          from fenced f order by f.ord
        on conflict do nothing
        returning 1)
    select (select count(*) from done), (select bool_or(paused) from fenced) into v_done, v_paused;
    if v_done = cardinality(p_runs) and not v_paused then
        return null;
    end if;

    return (
        select array_agg(case
                when m.owner = p_worker and m.receipt = i.receipt then
                    case when s.receipt <> i.receipt then 'conflict' when m.paused then 'paused' else 'ok' end
                when m.msg_id is null then case when r.status = 'cancelled' then 'cancelled' else 'gone' end
                else 'lost' end order by i.ord)
          from unnest(p_runs, p_receipts, p_names) with ordinality as i (run, receipt, name, ord)
          left join onward.message m on m.msg_id = i.run
          left join onward.step s on s.run_id = i.run and s.name = i.name
          left join onward.run_result r on r.run_id = i.run);
end
$$;
