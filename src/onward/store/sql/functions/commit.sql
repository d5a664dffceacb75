-- One flush of a worker's lane: what runs ask for, then steps, then ends; an answer for each.
-- Asks come first: a signal that a register settles must not land behind a step's row of the same batch, which
-- may decide a race against the wait that took it.
--
-- Called by: a worker's committer, one batch in flight a lane; p_no grows with every send, repeats included.
-- Locks: the lane's row (reaping waits for it, and a copy that arrives late finds a higher number: all `lost`),
--   then the message rows of everything but steps, by id. What depends on a lock is read in later statements.
-- Twice: after an unknown outcome the same batch is sent again on the same lane with a higher number. A step
--   meets its own row (same receipt) and is `ok`; a second end finds the message gone and is `gone`.
-- A caller that lost its hold on a run gets `lost` for that run and nothing is written; its neighbours are done.
-- Answers: `steps` and `ends` are null where every one is `ok`, `times` where every step was journalled just now; `asks`
--   has a row for each that differs from a plain `ok` in what the worker must know.
create or replace function onward.commit(
    p_worker bigint, p_lane integer, p_no bigint, p_locks uuid[],
    a_runs uuid[], a_receipts bigint[], a_ops text[], a_notes text[], a_rows integer[],
    w_runs uuid[], w_names text[], w_kinds text[], w_events text[], w_matches text[], w_children uuid[],
    w_attempts integer[], w_limits integer[], w_errors bytea[], w_seconds float8[], w_untils timestamptz[],
    s_held text, s_sum bigint, s_runs text, s_receipts text, s_names text, s_kinds text, s_values bytea, s_starts text,
    s_sizes text, s_attempts text, s_micros text,
    e_runs uuid[], e_receipts bigint[], e_rows integer[], e_statuses text[], e_outputs bytea[], e_errors bytea[],
    e_parents uuid[],
    out alive boolean, out at timestamptz, out steps text[], out times timestamptz[], out asks jsonb, out ends text[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    at := onward.now();
    update onward.lane set last_no = p_no where worker_id = p_worker and lane = p_lane and last_no < p_no;
    alive := found;
    if not alive then
        return;
    end if;
    if p_locks is not null then
        perform 1 from onward.message where msg_id = any (p_locks) order by msg_id for update;
    end if;
    if a_runs is not null then
        asks := onward.commit_asks(p_worker, at, a_runs, a_receipts, a_ops, a_notes, a_rows, w_runs, w_names, w_kinds,
                                   w_events, w_matches, w_children, w_attempts, w_limits, w_errors, w_seconds,
                                   w_untils);
    end if;
    if s_runs is not null then
        select s.words, s.times into steps, times
          from onward.commit_steps(p_worker, at, s_held::uuid[], s_sum, s_runs::uuid[], s_receipts::bigint[],
                                   string_to_array(s_names, e'\x1e'), s_kinds::text[], s_values,
                                   s_starts::integer[], s_sizes::integer[], s_attempts::integer[],
                                   s_micros::bigint[]) s;
    end if;
    if e_runs is not null then
        ends := onward.commit_ends(p_worker, at, e_runs, e_receipts, e_rows, e_statuses, e_outputs, e_errors,
                                   e_parents);
    end if;
end
$$;
