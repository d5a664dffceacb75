-- What ended runs leave behind is cleared, and parents that await them are due.
-- Called by: commit_ends and cancel, under the message locks of the runs and of their parents.
create or replace function onward.clear_run(p_runs uuid[], p_parents uuid[]) returns void
language plpgsql as $$
begin
    delete from onward.pending where run_id = any (p_runs);
    delete from onward.signal where run_id = any (p_runs);
    if p_parents is not null then
        update onward.message set visible_at = onward.now() where msg_id = any (p_parents);
    end if;
end
$$;
