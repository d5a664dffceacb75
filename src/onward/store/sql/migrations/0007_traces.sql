-- Whose trace a run belongs to: what its starter was doing then, as W3C writes it (`traceparent`). Null: nobody told, and
-- the run's own id is its trace's.
create domain onward.traceparent as text check (value ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$');
alter table onward.run add column trace onward.traceparent;

-- Functions that take or tell it: by `create or replace` the new ones would stand beside these.
drop function if exists onward.start_run(uuid, text, text, integer, text, bytea, bytea, text, float8, float8);
drop function if exists onward.start_runs(uuid[], text, text, integer[], text[], bytea[], bytea[], text[], float8[],
                                          float8[], uuid, text, uuid);
drop function if exists onward.begin_runs(uuid[], text, text, integer[], text[], bytea[], bytea[], text[], float8[],
                                          float8[]);
drop function if exists onward.rerun(text, uuid, uuid, text, text[], bytea[]);
drop function if exists onward.claim(bigint, integer);
drop function if exists onward.signal(text, uuid[], uuid[], text[], bytea[], text[], boolean[], text[], text[]);
drop function if exists onward.cancel(text, uuid);
