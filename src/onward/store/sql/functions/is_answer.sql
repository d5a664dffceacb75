-- Will this signal be taken when the run's waits are settled as they stand? Walks them as `settle` does: each
-- wait, in order of registration, takes the oldest matching signal that no earlier wait took.
-- Called by: signal, under the run's message lock.
create or replace function onward.is_answer(p_run uuid, p_event text, p_signal uuid) returns boolean
language plpgsql as $$
declare
    v_wait  onward.pending;
    v_taken uuid[] := '{}';
    v_next  uuid;
begin
    if exists (select 1 from onward.signal where signal_id = p_signal and taken) then
        return true;
    end if;
    for v_wait in
        select * from onward.pending where run_id = p_run and event = p_event order by seq
    loop
        select s.signal_id into v_next from onward.signal s
         where s.run_id = p_run and s.event = p_event and not s.taken and s.signal_id <> all (v_taken)
           and onward.fits(v_wait.match, s.search, s.fits)
         order by s.seq limit 1;
        if v_next = p_signal then
            return true;
        end if;
        if v_next is not null then
            v_taken := v_taken || v_next;
        end if;
    end loop;
    return false;
end
$$;
