-- Ends runs: the result is written, the message and what hung on the run goes; parents that wait are due.
--
-- Called by: commit, which has locked the messages of the runs and of their parents, by id.
-- The count of journal rows is an assertion (no counterexample is known without it): an end that does not know
--   every row of the journal would throw one away, and is refused as `conflict`.
-- Twice: the message is gone: `gone`.
create or replace function onward.commit_ends(
    p_worker bigint, p_now timestamptz, p_runs uuid[], p_receipts bigint[], p_rows integer[], p_statuses text[],
    p_outputs bytea[], p_errors bytea[], p_parents uuid[])
returns text[]
language plpgsql as $$
declare
    v_ended uuid[];
begin
    with ended as (
        select i.run, i.status, i.output, i.error, r.tenant, r.workflow, r.started_at, r.retention
          from unnest(p_runs, p_receipts, p_rows, p_statuses, p_outputs, p_errors)
               as i (run, receipt, rows, status, output, error)
         cross join lateral (
                select m.owner, m.receipt from onward.message m where m.msg_id = i.run offset 0) m
         cross join lateral (
                select r.tenant, r.workflow, r.started_at, r.retention from onward.run r
                 where r.run_id = i.run offset 0) r
         where m.owner = p_worker and m.receipt = i.receipt
           and i.rows = (select count(*) from onward.step s where s.run_id = i.run)),
    cleared as (
        delete from onward.message m where m.msg_id = any (array(select run from ended))),
    results as (
        insert into onward.run_result (run_id, status, output, error, completed_at, expires_at,
                                       tenant, workflow, started_at)
        select run, status, output, error, p_now, p_now + onward.kept(retention), tenant, workflow, started_at
          from ended),
    stopped as (
        delete from onward.running g using ended e
         where g.tenant = e.tenant and g.workflow = e.workflow and g.started_at = e.started_at and g.run_id = e.run)
    select coalesce(array_agg(run), '{}') into v_ended from ended;

    perform onward.count_ends(v_ended);
    perform onward.clear_run(v_ended, p_parents);
    if cardinality(v_ended) = cardinality(p_runs) then
        return null;
    end if;
    return (
        select array_agg(case
                when i.run = any (v_ended) then 'ok'
                when m.msg_id is null then case when r.status = 'cancelled' then 'cancelled' else 'gone' end
                when m.owner = p_worker and m.receipt = i.receipt then 'conflict'
                else 'lost' end order by i.ord)
          from unnest(p_runs, p_receipts) with ordinality as i (run, receipt, ord)
          left join onward.message m on m.msg_id = i.run
          left join onward.run_result r on r.run_id = i.run);
end
$$;
