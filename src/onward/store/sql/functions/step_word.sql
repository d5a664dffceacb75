-- What became of a step that was sent: ok, paused (journalled, and the run is to be handed back before its next
-- step), conflict (another hand-out's row is there: release and replay), gone (the run has ended), cancelled, lost
-- (another hand-out is the current one).
-- Called by: commit_steps and commit_step, where not everything is plainly ok. Reads only.
create or replace function onward.step_word(p_worker bigint, p_run uuid, p_receipt bigint, p_name text) returns text
language sql stable as $$
    select case
        when m.owner = p_worker and m.receipt = p_receipt then
            case when s.receipt <> p_receipt then 'conflict' when m.paused then 'paused' else 'ok' end
        when m.msg_id is null then case when r.status = 'cancelled' then 'cancelled' else 'gone' end
        else 'lost' end
      from (values (1)) as one
      left join onward.message m on m.msg_id = p_run
      left join onward.step s on s.run_id = p_run and s.name = p_name
      left join onward.run_result r on r.run_id = p_run
$$;
