-- How many runs remove_expired would remove or look at, and how many have objects that are to be deleted.
-- Called by: payload sweep --dry-run. Reads only.
create or replace function onward.count_removable(out expired bigint, out removed bigint)
language sql volatile as $$
    select (select count(*) from onward.run_result x
             where x.expires_at <= onward.now()
               and (x.status <> 'cancelled' or x.completed_at <= onward.now() - interval '10 minutes')),
           (select count(*) from onward.removed d where d.removed_at <= onward.now())
$$;
