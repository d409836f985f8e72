//! Usage as the meter would store it, for tests of what is computed from it.

use jiff::Timestamp;
use sqlx::PgPool;
use trueup_model::OrgId;

/// Stores that a pod of plan `small` ran for some hours for the service of this name.
///
/// # Panics
/// The row cannot be written.
pub async fn store_hours(
    owner: &PgPool,
    (org, service): (OrgId, &str),
    object: &str,
    from: Timestamp,
    hours: i64,
) {
    let stored = sqlx::query(
        r#"insert into usage_intervals (id, org_id, project_id, service_id, cluster_id, object, source, plan,
               quantities, starts_at, ends_at, open, growing, delivery, basis, simulated,
               first_evidence, last_evidence, late, skewed, recorded_at)
           select gen_random_uuid(), s.org_id, s.project_id, s.id, s.cluster_id, $1, 'pods', 'small',
               '{"pod_seconds": {"per_second": 1}}', t.moment, t.moment + $2 * interval '1 hour', false, false,
               'delivered', 'observed', false, t.evidence, t.evidence, false, false, t.moment
           from services s
           cross join (select $3::text::timestamptz as moment,
                              jsonb_build_object('seen_at', $3, 'epoch', 1, 'observer', 'executor/one',
                                                 'transition', null) as evidence) t
           where s.name = $4 and s.org_id = $5 and s.deleted_at is null order by s.id limit 1"#,
    )
    .bind(object)
    .bind(hours)
    .bind(from.to_string())
    .bind(service)
    .bind(org.uuid())
    .execute(owner)
    .await
    .expect("the usage should be stored");
    assert_eq!(stored.rows_affected(), 1, "a service named {service}");
}
