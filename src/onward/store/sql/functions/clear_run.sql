-- What an ended run leaves behind is cleared, and a parent that awaits it is due.
-- Called by: commit_ends, cancel, reap, under the message locks of the runs and of their parents.
create or replace function onward.clear_run(p_runs uuid[]) returns void
language plpgsql as $$
begin
    delete from onward.pending where run_id = any (p_runs);
    delete from onward.signal where run_id = any (p_runs);
    update onward.message m set visible_at = onward.now()
      from onward.run r
     where r.run_id = any (p_runs) and r.parent is not null and m.msg_id = r.parent;
end
$$;
