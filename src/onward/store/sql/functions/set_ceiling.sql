-- Records the ceiling of retentions, in days. Runs that were started before keep theirs.
-- Called by: workers and servers whose environment names one. Twice: the last one stands.
create or replace function onward.set_ceiling(p_days integer) returns void
language plpgsql as $$
begin
    insert into onward.setting as s (name, value) values ('max_retention_days', p_days::text)
    on conflict (name) do update set value = excluded.value where s.value <> excluded.value;
end
$$;
