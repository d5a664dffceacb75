-- A flush that holds the end of a single run: `commit` without its arrays, for the latency of short runs.
--
-- Called by: a worker's committer. Locks, gate, assertion and answers: those of commit and commit_ends, word for word.
create or replace function onward.commit_end(
    p_worker bigint, p_lane integer, p_no bigint, p_run uuid, p_receipt bigint, p_rows integer, p_status text,
    p_output bytea, p_error bytea, p_parent uuid,
    out alive boolean, out at timestamptz, out word text)
language plpgsql as $$
declare
    v_message onward.message;
begin
    at := onward.now();
    update onward.lane set last_no = p_no where worker_id = p_worker and lane = p_lane and last_no < p_no;
    alive := found;
    if not alive then
        return;
    end if;
    if p_parent is not null then
        perform 1 from onward.message where msg_id in (p_run, p_parent) order by msg_id for update;
    end if;
    select * into v_message from onward.message where msg_id = p_run for update;
    if not found then
        select case when status = 'cancelled' then 'cancelled' else 'gone' end into word
          from onward.run_result where run_id = p_run;
        word := coalesce(word, 'gone');
    elsif v_message.owner is distinct from p_worker or v_message.receipt <> p_receipt then
        word := 'lost';
    elsif (select count(*) from onward.step where run_id = p_run) <> p_rows then
        word := 'conflict';
    else
        delete from onward.message where msg_id = p_run;
        insert into onward.run_result (run_id, status, output, error, completed_at)
        values (p_run, p_status, p_output, p_error, at);
        perform onward.clear_run(array[p_run], case when p_parent is not null then array[p_parent] end);
        word := 'ok';
    end if;
end
$$;
