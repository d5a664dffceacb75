-- A retention as it may be: at most the ceiling that operators set for all (WORKFLOWS_MAX_RETENTION_DAYS, 365 days).
-- Called by: whatever starts runs or binds their version, so that every client is held to it. Reads only.
create or replace function onward.retained(p_wanted interval) returns interval
language plpgsql stable strict as $$
begin
    return least(p_wanted, make_interval(days => coalesce(
        (select value::integer from onward.setting where name = 'max_retention_days'), 365)));
end
$$;
