-- May the caller sweep now? One of all workers and servers may, once an interval.
-- Called by: sweepers. Locks: the setting's row. Twice: false until the interval has passed.
create or replace function onward.begin_sweep(p_interval interval) returns boolean
language plpgsql as $$
begin
    insert into onward.setting (name, value) values ('swept_at', '-infinity') on conflict do nothing;
    update onward.setting set value = onward.now()::text
     where name = 'swept_at' and value::timestamptz <= onward.now() - p_interval;
    return found;
end
$$;
