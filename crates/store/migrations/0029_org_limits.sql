-- Limits of an org on projects and endpoints: both take of what all orgs share (namespaces, and the ports of a
-- cluster), and neither is held by a service's reservation.

alter table quotas
    add column projects_limit  bigint not null default 100,
    add column projects_used   bigint not null default 0,
    add column endpoints_limit bigint not null default 100,
    add column endpoints_used  bigint not null default 0;

-- What exists already counts, also above the limit.
update quotas q set projects_used = p.count
from (select org_id, count(*) as count from projects where deleted_at is null group by org_id) p
where p.org_id = q.org_id;
update quotas q set endpoints_used = e.count
from (select org_id, count(*) as count from endpoints where released_at is null group by org_id) e
where e.org_id = q.org_id;
