-- The workers that are there, and what they serve. Called by: clients. Reads only.
create or replace function onward.list_workers()
returns table (worker_id bigint, name text, alive boolean, serves text[], owned bigint, started_at timestamptz,
               silent_for float8)
language sql volatile as $$
    select w.worker_id, w.name, w.lease_until > onward.now(),
           (select array_agg(format('%s@%s', s.workflow, s.version) order by s.workflow, s.version)
              from onward.serves s where s.worker_id = w.worker_id),
           (select count(*) from onward.message m where m.owner = w.worker_id),
           w.started_at, extract(epoch from onward.now() - w.beat_at)
      from onward.worker w order by w.worker_id
$$;
