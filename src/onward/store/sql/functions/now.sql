-- The one clock: the database's, moved by the offset that the test kit sets. Never a worker's.
-- (plpgsql keeps its plan; an SQL function would be planned at each call, before Postgres 18.)
create or replace function onward.now() returns timestamptz
language plpgsql volatile as $$
begin
    return clock_timestamp()
         + coalesce((select value::interval from onward.setting where name = 'clock_offset'), interval '0');
end
$$;
