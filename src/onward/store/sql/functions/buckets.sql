-- The upper bounds of the buckets that durations are counted in, in seconds; one more bucket holds what is longer.
-- Called by: bucketed, and what shows them. (Steps take milliseconds, runs may take months.)
create or replace function onward.buckets() returns float8[]
language sql immutable as $$
    select array[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400,
                 604800]::float8[]
$$;
