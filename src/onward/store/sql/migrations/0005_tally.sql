-- What happened, counted. Whoever changes a state adds a row in the same transaction, so the counts are as right as the
-- states, and nobody waits for anybody's counter; the rows are folded into totals now and then. A sum of both, read in
-- one statement, never goes back.
create domain onward.metric as text not null
    check (value in ('started', 'ended', 'removed', 'step', 'retry', 'signal'));

create table onward.tally (
    seq      bigint primary key generated always as identity,
    tenant   text collate "C" not null,
    workflow text collate "C" not null,
    metric   onward.metric,
    label    text collate "C" not null,                  -- a status, a step's name, an event
    count    bigint not null,
    seconds  float8 not null default 0,                  -- their sum, of what takes time,
    buckets  bigint[]                                    -- and how many of them in each of onward.buckets
);

create table onward.total (
    tenant   text collate "C" not null,
    workflow text collate "C" not null,
    metric   onward.metric,
    label    text collate "C" not null,
    count    bigint not null,
    seconds  float8 not null,
    buckets  bigint[],
    primary key (tenant, workflow, metric, label)
) with (fillfactor = 50);

insert into onward.total (tenant, workflow, metric, label, count, seconds)
select tenant, workflow, 'started', '', count(*), 0 from onward.run group by 1, 2
union all
select r.tenant, r.workflow, 'ended', x.status, count(*),
       sum(extract(epoch from x.completed_at - r.started_at))
  from onward.run_result x join onward.run r on r.run_id = x.run_id group by 1, 2, 4;
