-- Searching by a part of a name. Row-level security lets an index be used only for what cannot leak,
-- and LIKE is not among it: every name of the org would be looked at. This function looks over the
-- wall, asks for the org itself, and answers with ids, which are read behind the wall as always.
--
-- The index it uses is made at each start, where the server has what it takes (see bootstrap.rs).

create function search_services(wanted text, most integer) returns setof uuid
    language plpgsql stable security definer set search_path = pg_catalog, public
    as $$
begin
    -- Executed and not planned once: only a plan that knows the text knows how few names hold it.
    return query execute
        'select s.id from public.services s
         where s.org_id = public.trueup_org() and s.deleted_at is null and s.name like $1 limit $2'
        using '%' || regexp_replace(wanted, '([\\%_])', '\\\1', 'g') || '%', most;
end $$;
revoke execute on function search_services from public;
grant execute on function search_services to trueup_app;
