-- Where the payloads of this database lie, and below which prefix. What was recorded first counts for everybody.
--
-- Called by: clients and workers, before they read or write a payload. p_url: what to record where nothing is yet; null:
--   nothing; `embedded`: the folder that an embedded server names in its own settings, wherever it is moved to.
-- Locks: the settings' keys, in one order. Twice: the first one stands.
create or replace function onward.payload_store(
    p_url text, p_root text, out url text, out root text, out recorded text)
language plpgsql as $$
begin
    if p_url <> 'embedded' or nullif(current_setting('onward.payloads', true), '') is not null and p_url is not null then
        insert into onward.setting (name, value)
        values ('payload_root', coalesce(p_root, 'onward')), ('payload_url', p_url) on conflict do nothing;
    end if;
    select value into recorded from onward.setting where name = 'payload_url';
    select value into root from onward.setting where name = 'payload_root';
    root := coalesce(root, p_root, 'onward');
    url := case when coalesce(recorded, 'embedded') = 'embedded'
                then nullif(current_setting('onward.payloads', true), '') else recorded end;
end
$$;
