-- Values that lie outside: where, who else points to them, and what is to be deleted with its run.

-- The step whose payload cannot be written or read at the moment, for people; cleared when it can, and by a claim.
alter table onward.message add column trouble text;

-- A rerun keeps another run's journal, so its rows may point to objects of that run: these outlive it.
create table onward.borrowed (
    owner    uuid not null,                              -- whose objects
    borrower uuid not null,                              -- whose rows point to them
    primary key (owner, borrower)
);
create index borrowed_borrower on onward.borrowed (borrower);

-- Runs whose rows are gone and whose objects are to be: written with the rows' deletion, so that a crash between
-- the two leaves work to do and no garbage.
create table onward.removed (
    run_id     uuid primary key,
    tenant     text collate "C" not null,
    workflow   text collate "C" not null,
    removed_at timestamptz not null
);

-- When an ended run may go: its end and its retention.
alter table onward.run_result add column expires_at timestamptz;
update onward.run_result x set expires_at = x.completed_at + coalesce(r.retention, interval '30 days')
  from onward.run r where r.run_id = x.run_id;
alter table onward.run_result alter column expires_at set not null;
create index run_result_expires on onward.run_result (expires_at);

-- A payload that lies outside cannot be searched here. Its run's worker reads it and says which matches it fits;
-- until then nothing is settled for the run.
alter table onward.signal
    add column fits  jsonb[] not null default '{}',
    add column unfit jsonb[] not null default '{}';
