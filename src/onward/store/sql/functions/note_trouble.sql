-- Says which payload an owned run cannot write or read just now, or, with null, that it can again. For people only:
-- nothing is decided by it, a claim clears it, and where it is lost the run goes on all the same.
-- Called by: the run's worker, outside its lane. Locks: the run's message. Twice: harmless.
create or replace function onward.note_trouble(p_worker bigint, p_run uuid, p_receipt bigint, p_trouble text)
returns void
language plpgsql as $$
begin
    perform 1 from onward.message where msg_id = p_run for update;
    update onward.message set trouble = p_trouble
     where msg_id = p_run and owner = p_worker and receipt = p_receipt;
end
$$;
