//! How a service is shown, in SQL: its health and its reconciliation, with stale evidence counted.
//!
//! The same as `rules::status::{aged, reconciliation}`, for lists and counts of many services; a test
//! compares them. Each cluster's watches are read once, so that a row costs two comparisons.

use jiff::{SignedDuration, Timestamp};
use sqlx::{Postgres, QueryBuilder};
use trueup_model::cluster::STALE_AFTER_SECONDS;

use crate::db::clock::sql;

/// The kinds that a status may depend on, and their columns in `heard`.
const KINDS: [(&str, &str); 8] = [
    ("Pod", "pod"),
    ("Deployment", "deployment"),
    ("StatefulSet", "stateful_set"),
    ("CronJob", "cron_job"),
    ("Job", "job"),
    ("PersistentVolumeClaim", "claim"),
    ("ConfigMap", "config_map"),
    ("Service", "service"),
];

/// Joins `heard` to services `s`.
pub(crate) const JOIN: &str = " join heard h on h.id = s.cluster_id";

/// The kinds of `rules::status::freshness::evidence`.
const EVIDENCE: &str = "least(h.pod,
    case s.spec ->> 'workload' when 'deployment' then h.deployment when 'stateful_set' then h.stateful_set
        when 'cron_job' then h.cron_job else h.job end,
    case when s.spec ->> 'volume' is null then 'infinity' else h.claim end)";

/// SQL: the health that service `s` with status `t` is shown with.
pub(crate) fn health() -> String {
    format!(
        "case when h.fresh or t.phase = 'deleted' or t.status -> 'evidence' = 'null' or {EVIDENCE} >= h.since
              then t.health else 'unknown' end"
    )
}

/// SQL: the reconciliation that service `s` with status `t` is shown with.
pub(crate) fn reconciliation() -> String {
    format!(
        "case t.phase when 'deleted' then 'settled' when 'blocked' then 'diverged'
         when 'accepted' then 'pending' when 'creating' then 'pending'
         when 'updating' then 'pending' when 'deleting' then 'pending'
         else case
             when (t.status ->> 'applied_generation')::bigint is distinct from s.generation then 'pending'
             when not (h.fresh or least({EVIDENCE}, h.config_map,
                 case when jsonb_array_length(s.spec -> 'ports') = 0 then 'infinity' else h.service end) >= h.since)
                 then 'pending'
             when t.status -> 'conditions' = '[]' then 'settled'
             when t.status -> 'conditions' @? '$[*] ? (@.reason == \"cluster_unreachable\"
                 || @.reason == \"secrets_locked\" || @.reason == \"defect\")' then 'pending'
             else 'diverged' end
         end"
    )
}

/// The begin of a statement that may use `heard`: per cluster, when each kind was last heard of, since
/// when a watch must have been heard of to be fresh, and whether all are.
pub(crate) fn with_heard(now: Timestamp) -> QueryBuilder<Postgres> {
    let silence = SignedDuration::from_secs(STALE_AFTER_SECONDS);
    let since = now.checked_sub(silence).unwrap_or(Timestamp::MIN);
    let columns = KINDS.map(|(kind, column)| {
        format!("coalesce((watches ->> '{kind}')::timestamptz, '-infinity') as {column}")
    });
    let mut query = QueryBuilder::new(format!(
        "with watched as materialized (select id, {} from clusters),
              heard as materialized (select watched.*, since, least({}) >= since as fresh
                  from watched cross join (select ",
        columns.join(", "),
        KINDS.map(|(_, column)| column).join(", "),
    ));
    query.push_bind(sql(since)).push("::timestamptz as since) moment) ");
    query
}
