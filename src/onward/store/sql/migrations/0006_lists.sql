-- For lists: runs by tenant, workflow and status, newest first. Rows that arrive with time lie at the end of their part of
-- an index, so that insertion stays cheap; lists read it backwards.

-- Ended runs carry what lists ask for. Filled by whatever ends runs.
alter table onward.run_result
    add column tenant     text collate "C",
    add column workflow   text collate "C",
    add column started_at timestamptz;
update onward.run_result x set tenant = r.tenant, workflow = r.workflow, started_at = r.started_at
  from onward.run r where r.run_id = x.run_id;
create index run_result_list on onward.run_result (tenant, workflow, status, started_at, run_id);

-- Runs that have not ended, from start to end. `message` has the same runs, but an index more there would cost each claim
-- and each suspension, since these rewrite its row; here a row comes and goes and is never changed.
create table onward.running (
    tenant     text collate "C" not null,
    workflow   text collate "C" not null,
    started_at timestamptz not null,
    run_id     uuid not null,
    primary key (tenant, workflow, started_at, run_id)
) with (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
lock table onward.run in share row exclusive mode;  -- starts that are under way are waited for
insert into onward.running (tenant, workflow, started_at, run_id)
select r.tenant, r.workflow, r.started_at, r.run_id from onward.message m join onward.run r on r.run_id = m.msg_id;

drop function if exists onward.kept(uuid);          -- it takes the retention now, which whoever ends runs has at hand
