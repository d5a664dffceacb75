-- The state of all runs. Written by the functions in ../functions only; see docs/architecture.md.
-- Texts that are looked up are compared byte by byte (collate "C"): quicker than by a language's rules, the same on every
-- server, and their indexes outlive an upgrade of the system's locales.
create schema onward;

-- What holds for the whole database: the clock's offset, later the payload store.
create table onward.setting (
    name  text primary key,
    value text not null
);

-- The queue. A run has exactly one message from its start to its end, with the run's id as its own:
-- owning the message is owning the run, so single-flight needs no lock of its own.
create table onward.message (
    msg_id      uuid primary key,
    tenant      text collate "C" not null,
    queue       text collate "C" not null,
    version     integer not null check (version >= 0),   -- 0: any, bound at the first claim
    visible_at  timestamptz not null,                    -- timer, delay and retry in one
    owner       bigint,                                  -- the worker that holds it
    receipt     bigint not null default 0,               -- counts hand-outs: the fencing token
    paused      boolean not null default false,
    reason      text,                                    -- why it is parked
    deaths      integer not null default 0,              -- deaths of its owner since the last progress
    progress    bigint not null default 0,               -- the journal's end at the last of them
    executing   boolean not null default false,          -- a suspect that has begun to execute
    cached_by   bigint,                                  -- whose memory may hold the coroutine,
    cached_seq  bigint                                   -- and up to where it knows the journal
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- For the claim alone: sleepers lie behind what is due, so a million of them cost nothing.
create index message_claim on onward.message (queue, version, visible_at)
    where owner is null and not paused;
-- For what an owner has to look at, for the reaper, and for ghosts.
create index message_owned on onward.message (owner, visible_at) where owner is not null;
create index message_paused on onward.message (owner) where paused;
create index message_parked on onward.message (queue) where reason is not null;

-- Written once, at the start (version and retention at the first claim where the start left the version open).
create table onward.run (
    run_id          uuid primary key,
    tenant          text collate "C" not null,
    workflow        text collate "C" not null,
    version         integer check (version > 0),
    idempotency_key text collate "C",
    input_hash      bytea not null,
    retention       interval,
    parent          uuid,
    rerun_of        uuid,
    started_at      timestamptz not null
);
create unique index run_key on onward.run (tenant, workflow, idempotency_key)
    where idempotency_key is not null;
create index run_list on onward.run (tenant, started_at desc, run_id desc);
create index run_list_workflow on onward.run (tenant, workflow, started_at desc, run_id desc);
create index run_parent on onward.run (parent) where parent is not null;

create table onward.run_input (
    run_id uuid primary key,
    input  bytea not null,
    search jsonb                                         -- for the input filter only, never the record
);
create index run_input_search on onward.run_input using gin (search jsonb_path_ops);

-- Written once, at the end.
create table onward.run_result (
    run_id       uuid primary key,
    status       text not null check (status in ('completed', 'failed', 'cancelled')),
    output       bytea,
    error        bytea,
    former       bigint,                                 -- who owned it when it was cancelled
    completed_at timestamptz not null,
    check ((status = 'completed') = (output is not null)),
    check ((status = 'failed') = (error is not null))
);

-- Domains, because a check of the table itself is read from the catalogue anew by each insert: half of its time.
create domain onward.step_kind as text not null
    check (value in ('run', 'sleep', 'wait', 'race', 'start', 'invoke', 'batch'));
create domain onward.pending_kind as text not null
    check (value in ('sleep', 'wait', 'retry', 'invoke', 'batch'));

-- The journal: append only, the first writer wins. `name` is the path, parents in front, parted by \x1f.
-- Run ids grow with time, so that it can be partitioned by ranges of run_id.
create table onward.step (
    run_id       uuid not null,
    name         text collate "C" not null,
    seq          bigint not null generated always as identity,
    kind         onward.step_kind,
    output       bytea,
    error        bytea,
    attempt      integer not null,
    receipt      bigint not null,                        -- under which hand-out; 0: by `settle`
    started_at   timestamptz not null,
    completed_at timestamptz not null,
    primary key (run_id, name),
    check ((output is null) <> (error is null))
) with (autovacuum_vacuum_insert_scale_factor = 0.5);

-- What a run is blocked on, written when the body reaches it.
create table onward.pending (
    run_id     uuid not null,
    name       text collate "C" not null,
    seq        bigint not null generated always as identity,   -- order of registration
    kind       onward.pending_kind,
    event      text,
    match      jsonb,
    child      uuid,
    attempt    integer not null,
    attempts   integer,                                  -- how many there may be, for people
    error      bytea,                                    -- why it is tried again
    deadline   timestamptz not null,                     -- infinity: none
    since      timestamptz not null,
    primary key (run_id, name)
);
-- For parents that nobody has woken.
create index pending_child on onward.pending (child) where child is not null;

-- Signals that came. Taken ones stay until the run ends, so that a repeated send is known again.
create table onward.signal (
    signal_id  uuid primary key,
    run_id     uuid not null,
    seq        bigint not null generated always as identity,
    event      text not null,
    payload    bytea not null,
    search     jsonb,
    taken      boolean not null default false,
    sent_at    timestamptz not null
);
create index signal_run on onward.signal (run_id, seq);

-- One row for each incarnation of a worker; ids are never used again.
create table onward.worker (
    worker_id    bigint primary key generated always as identity,
    name         text not null,
    lease        interval not null,
    lease_until  timestamptz not null,
    beat_at      timestamptz not null,
    holds_lock   boolean not null default false,         -- its session lock tells its death
    started_at   timestamptz not null
) with (fillfactor = 50);

create table onward.serves (
    worker_id bigint not null,
    workflow  text collate "C" not null,
    version   integer not null check (version > 0),
    retention interval not null,
    primary key (worker_id, workflow, version)
);
create index serves_workflow on onward.serves (workflow, version);

-- One row for each flusher of a worker: the gate that makes reaping wait for what is in flight.
create table onward.lane (
    worker_id bigint not null,
    lane      integer not null,
    last_no   bigint not null default 0,
    primary key (worker_id, lane)
) with (fillfactor = 10);

-- Who waits for a result. Losing it in a crash costs a poll, so it is not logged.
create unlogged table onward.awaited (
    run_id  uuid not null,
    channel text collate "C" not null,
    until   timestamptz not null,
    primary key (run_id, channel)
);
