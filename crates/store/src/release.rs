//! Releases: the accepted spec of each generation.

use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::{OrgId, PriceVersionId, ReleaseId};
use trueup_model::name::Name;
use trueup_model::release::Release;
use trueup_model::service::Service;
use trueup_model::template::TemplateRef;
use trueup_rules::admit::operation::{self, PastRelease};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{json, read, read_json};
use crate::service::find;
use crate::{App, Error};

/// How many releases a rollback without a generation looks at.
const ROLLBACK_REACH: i64 = 500;

impl App {
    /// A service's releases before a generation, newest first; `None` if there is no such service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_releases(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        before: Option<i64>,
        limit: i64,
    ) -> Result<Option<Vec<Release>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(row) = find(&mut tx, project, service).await? else { return Ok(None) };
        let rows = sqlx::query(
            "select * from releases where service_id = $1 and ($2::bigint is null or generation < $2)
             order by generation desc limit $3",
        )
        .bind(row.service.id.uuid())
        .bind(before)
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        rows.iter().map(release).collect::<Result<_, _>>().map(Some)
    }
}

/// The release that a rollback goes to: the given one, or the last with another spec.
pub(crate) async fn rollback_target(
    tx: &mut Tx,
    current: &Service,
    to: Option<i64>,
) -> Result<Option<Release>, Error> {
    let chosen = match to {
        Some(to) => Some(to),
        None => operation::target(&past(tx, current).await?),
    };
    let row = sqlx::query(
        "select * from releases
         where service_id = $1 and generation = $2 and generation < $3 and desired <> 'deleted'",
    )
    .bind(current.id.uuid())
    .bind(chosen)
    .bind(current.generation)
    .fetch_optional(&mut **tx)
    .await?;
    row.as_ref().map(release).transpose()
}

/// The newest releases of the service, the present one first.
async fn past(tx: &mut Tx, current: &Service) -> Result<Vec<PastRelease>, Error> {
    let rows: Vec<(i64, bool, String)> = sqlx::query_as(
        "select generation, action = 'rollback', md5((spec - 'restart')::text) from releases
         where service_id = $1 and desired <> 'deleted'
         order by generation desc limit $2",
    )
    .bind(current.id.uuid())
    .bind(ROLLBACK_REACH)
    .fetch_all(&mut **tx)
    .await?;
    let past = rows.into_iter().map(|(generation, is_rollback, spec)| PastRelease {
        generation,
        is_rollback,
        spec,
    });
    Ok(past.collect())
}

/// The action that created the current generation.
pub(crate) async fn last_action(tx: &mut Tx, current: &Service) -> Result<Option<String>, Error> {
    let action =
        sqlx::query_scalar("select action from releases where service_id = $1 and generation = $2")
            .bind(current.id.uuid())
            .bind(current.generation)
            .fetch_optional(&mut **tx)
            .await?;
    Ok(action)
}

/// Records a release, with the list price that holds when it is accepted.
pub(crate) async fn insert(
    tx: &mut Tx,
    service: &Service,
    action: &str,
    principal: &str,
) -> Result<(), Error> {
    sqlx::query(
        "insert into releases (id, org_id, service_id, generation, template_name, template_version,
                               parameters, spec, desired, principal, accepted_at, action,
                               price_version)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
                 (select v.id from price_versions v
                  where v.item = 'pod:' || $13::text and v.org_id is null and v.valid_from <= $11
                  order by v.valid_from desc limit 1))",
    )
    .bind(ReleaseId::uuid(new_id(service.accepted_at)))
    .bind(service.org.uuid())
    .bind(service.id.uuid())
    .bind(service.generation)
    .bind(service.template.name.as_str())
    .bind(i32::try_from(service.template.version).unwrap_or(i32::MAX))
    .bind(json(&service.parameters))
    .bind(json(&service.spec))
    .bind(service.desired.into_str())
    .bind(principal)
    .bind(sql(service.accepted_at))
    .bind(action)
    .bind(service.spec.plan.as_ref().map(Name::as_str))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn release(row: &PgRow) -> Result<Release, Error> {
    let version: i32 = row.try_get("template_version")?;
    Ok(Release {
        id: ReleaseId::from_uuid(row.try_get("id")?),
        generation: row.try_get("generation")?,
        action: row.try_get("action")?,
        template: TemplateRef {
            name: read("template name", row.try_get("template_name")?)?,
            version: u32::try_from(version).unwrap_or(0),
        },
        parameters: read_json("parameters", row.try_get("parameters")?)?,
        spec: read_json("spec", row.try_get("spec")?)?,
        desired: read("desired state", row.try_get("desired")?)?,
        principal: row.try_get("principal")?,
        accepted_at: row.try_get::<jiff_sqlx::Timestamp, _>("accepted_at")?.to_jiff(),
        price_version: row
            .try_get::<Option<Uuid>, _>("price_version")?
            .map(PriceVersionId::from_uuid),
    })
}
