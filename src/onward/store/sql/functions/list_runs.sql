-- A page of runs, newest first, stable while rows arrive: the cursor is the last row's start and id.
-- Called by: clients. Reads only, all of it in the caller's snapshot. p_input: any of these patterns is contained in the
-- input.
--
-- Without p_input it is one walk (see walk_runs). With it there are two ways, and each is a disaster where the other one
-- shines. To walk by time and look at each input costs a microsecond for every run between two matches, whose rows lie
-- side by side. The index on inputs knows neither time nor tenant: all matches there are must be fetched, from two or three
-- places each, and sorted, at five to twenty microseconds. Which is better cannot be known beforehand, so:
--   1. walk a thousand, then four thousand: a pattern that one run in a hundred matches has filled its page by now;
--   2. while one in four hundred matches, walk on: the page is near;
--   3. else ask the index, once, for no more than five thousand. Where there are no more, these are all, and the page is
--      among them. (It marks where all matches lie before it gives the first, 30 ns each: that bounds what is dear.)
--   4. else walk on.
-- Dear remains a pattern that thousands match, with hardly any where the walk goes: they are other tenants' runs, or long
-- before the time that was asked for. Then all runs between are looked at; `until` is the remedy.
create or replace function onward.list_runs(
    p_tenant text, p_workflow text, p_status text, p_since timestamptz, p_until timestamptz, p_input text[],
    p_after_time timestamptz, p_after_id uuid, p_limit integer)
returns uuid[]
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_patterns jsonb[] := p_input::jsonb[];
    v_time     timestamptz := p_after_time;
    v_id       uuid := p_after_id;
    v_step     integer := 1000;
    v_looked   integer := 0;
    v_few      constant integer := 5000;
    v_walked   uuid[];
    v_matches  uuid[];
    v_found    uuid[] := '{}';
begin
    if p_input is null then
        return onward.walk_runs(p_tenant, p_workflow, p_status, p_since, p_until, p_after_time, p_after_id, p_limit);
    end if;
    loop
        v_walked := onward.walk_runs(p_tenant, p_workflow, p_status, p_since, p_until, v_time, v_id, v_step);
        v_found := v_found || array(
            select w.id
              from unnest(v_walked) with ordinality as w (id, ord)
             cross join lateral (
                    select 1 from onward.run_input i where i.run_id = w.id and i.search @> any (v_patterns) offset 0) i
             order by w.ord limit p_limit - cardinality(v_found));
        exit when cardinality(v_found) = p_limit or cardinality(v_walked) < v_step;

        v_looked := v_looked + v_step;
        v_step := 4000;
        if v_matches is null and v_looked >= 5000 and cardinality(v_found) * 400 < v_looked then
            v_matches := array(
                select i.run_id from onward.run_input i where i.search @> any (v_patterns) limit v_few + 1);
            if cardinality(v_matches) <= v_few then
                return array(
                    select r.run_id
                      from unnest(v_matches) as m (id)
                     cross join lateral (select * from onward.run r where r.run_id = m.id offset 0) r
                      left join lateral (
                            select x.status from onward.run_result x where p_status is not null and x.run_id = m.id offset 0) x on true
                     where r.tenant = p_tenant
                       and (p_workflow is null or r.workflow = p_workflow)
                       and (p_status is null or p_status = coalesce(x.status, 'running'))
                       and (p_since is null or r.started_at >= p_since)
                       and (p_until is null or r.started_at < p_until)
                       and (p_after_id is null or (r.started_at, r.run_id) < (p_after_time, p_after_id))
                     order by r.started_at desc, r.run_id desc limit p_limit);
            end if;
        end if;
        select r.started_at, r.run_id into v_time, v_id from onward.run r
         where r.run_id = v_walked[cardinality(v_walked)];
        exit when not found;                                  -- somebody deletes rows by hand
    end loop;
    return v_found;
end
$$;
