-- Journals the results of steps. The hot path: one insert for the whole batch.
--
-- Called by: commit, behind the lane's gate. Locks: none on the messages: a thousand runs' steps would otherwise
--   write a thousand message rows. The gate is what makes the check safe: the fence is read in this statement's
--   snapshot, and nobody else can own the run before this lane's batch has ended.
-- p_values: outputs and errors end to end; p_sizes: how long each is, an error's below zero.
-- Answers: null when every step is `ok`; else one word an item, see step_word, and when its row was journalled: a repeat
--   must not tell the body another time than a replay will.
create or replace function onward.commit_steps(
    p_worker bigint, p_now timestamptz, p_runs uuid[], p_receipts bigint[], p_names text[], p_kinds text[],
    p_values bytea, p_starts integer[], p_sizes integer[], p_attempts integer[], p_seconds float8[],
    out words text[], out times timestamptz[])
language plpgsql as $$
declare
    v_done bigint;
begin
    -- by the messages' key, row after row, in the order given: `offset 0` keeps the planner from starting at the
    -- worker's messages instead, which it thinks are few
    insert into onward.step (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
    select i.run, i.name, i.kind,
           case when i.size > 0 then substr(p_values, i.start, i.size) end,
           case when i.size < 0 then substr(p_values, i.start, -i.size) end,
           i.attempt, i.receipt, p_now - make_interval(secs => i.seconds), p_now
      from unnest(p_runs, p_receipts, p_names, p_kinds, p_starts, p_sizes, p_attempts, p_seconds)
           as i (run, receipt, name, kind, start, size, attempt, seconds)
     cross join lateral (select m.owner, m.receipt from onward.message m where m.msg_id = i.run offset 0) m
     where m.owner = p_worker and m.receipt = i.receipt
    on conflict do nothing;
    get diagnostics v_done = row_count;
    if v_done = cardinality(p_runs) and not exists (
        select 1 from onward.message where owner = p_worker and paused) then
        return;
    end if;

    select array_agg(onward.step_word(p_worker, i.run, i.receipt, i.name) order by i.ord),
           array_agg(coalesce(s.completed_at, p_now) order by i.ord)
      into words, times
      from unnest(p_runs, p_receipts, p_names) with ordinality as i (run, receipt, name, ord)
      left join onward.step s on s.run_id = i.run and s.name = i.name;
end
$$;
