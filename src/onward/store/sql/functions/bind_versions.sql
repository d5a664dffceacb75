-- Runs started by name while no worker was alive: the first claimer's highest version and its retention.
-- Called by: claim, under the messages' locks.
create or replace function onward.bind_versions(p_worker bigint, p_runs uuid[]) returns void
language plpgsql as $$
begin
    with bound as (
        update onward.run r
           set version = s.version, retention = onward.retained(coalesce(r.retention, s.retention))
          from (select distinct on (workflow) workflow, version, retention from onward.serves
                 where worker_id = p_worker order by workflow, version desc) s
         where r.run_id = any (p_runs) and r.version is null and r.workflow = s.workflow
        returning r.run_id, r.version)
    update onward.message m set version = b.version from bound b where m.msg_id = b.run_id;
end
$$;
