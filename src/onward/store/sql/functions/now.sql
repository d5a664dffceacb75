-- The one clock: the database's, moved by the offset that the test kit sets. Never a worker's.
create or replace function onward.now() returns timestamptz
language sql volatile as $$
    select clock_timestamp()
         + coalesce((select value::interval from onward.setting where name = 'clock_offset'), interval '0')
$$;
