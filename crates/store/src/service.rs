//! Services: reading them with their observation and projection.

mod page;
pub(crate) mod shown;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::drift::Divergence;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ClusterId, OrgId, ProjectId, ServiceId};
use trueup_model::key::ResourceKey;
use trueup_model::name::Name;
use trueup_model::observation::PodSeen;
use trueup_model::plan::Plan;
use trueup_model::receipt::Receipt;
use trueup_model::service::Service;
use trueup_model::status::Status;
use trueup_model::template::TemplateRef;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::{freshness, read, read_json};
use crate::freeze::freeze;
use crate::{App, Error, drift};

pub use page::{ServiceFilter, ServiceOrder, ServicePosition, ServiceSort};

/// A service with its status and the names around it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceRow {
    /// The accepted desired state.
    pub service: Service,
    /// The name of its project.
    pub project_name: String,
    /// Its namespace.
    pub namespace: String,
    /// The name of its cluster.
    pub cluster_name: String,
    /// When the last watch event of each kind of its cluster arrived.
    pub watches: Freshness,
    /// The last projected status.
    pub status: Status,
    /// How often the status was projected.
    pub projection: i64,
    /// Its plan, with the current price.
    pub plan: Option<Plan>,
    /// The widest freeze that applies to it.
    pub frozen: Option<Freeze>,
}

/// A service with its recorded objects, its open divergences and its receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceDetail {
    /// The service.
    pub row: ServiceRow,
    /// Every key ever recorded for it.
    pub resources: Vec<RecordedObject>,
    /// Its open divergences, in field order.
    pub divergences: Vec<Divergence>,
    /// The deletion receipt, once it is deleted.
    pub receipt: Option<Receipt>,
}

/// A key that was recorded for a service, and what was last seen under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedObject {
    /// The key.
    pub key: ResourceKey,
    /// The uid last seen under it.
    pub uid: Option<String>,
    /// When it was last seen.
    ///
    /// A present object of a watched kind was last seen when its watch had its last contact, so that
    /// an idle object stays up to date without a write.
    pub last_seen_at: Option<Timestamp>,
}

/// One statement for all: status and receipt are written together and must be read together.
///
/// Otherwise a service could be shown as being deleted together with its deletion receipt.
const SELECT: &str = "select s.id, s.org_id, s.project_id, s.name, s.cluster_id, s.object_name,
        s.template_name, s.template_version, s.parameters, s.drift, s.spec, s.desired, s.generation,
        s.active_hours, s.scheduled_off, s.accepted_at, s.created_at,
        p.name as project_name, p.namespace, c.name as cluster_name, c.watches, t.status, t.projection,
        r.receipt, n.body as plan, s.frozen_at, s.frozen_by, s.frozen_why,
        c.frozen_at as cluster_frozen_at, c.frozen_by as cluster_frozen_by,
        c.frozen_why as cluster_frozen_why, o.frozen_at as platform_frozen_at,
        o.frozen_by as platform_frozen_by, o.frozen_why as platform_frozen_why
     from services s
     cross join platform o
     join projects p on p.id = s.project_id
     join clusters c on c.id = s.cluster_id
     join statuses t on t.subject_kind = 'service' and t.subject_id = s.id
     left join receipts r on r.subject_kind = 'service' and r.subject_id = s.id
     left join plans n on n.name = s.plan_name";

impl App {
    /// A service by project and name, or by id; an id also finds a deleted one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_service(
        &self,
        org: OrgId,
        project: &str,
        wanted: &str,
    ) -> Result<Option<ServiceDetail>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = fetch(&mut tx, project, wanted).await? else {
            return Ok(None);
        };
        let row = service_row(&found)?;
        let receipt: Option<Json<Value>> = found.try_get("receipt")?;
        let receipt = receipt.map(|json| read_json("receipt", json)).transpose()?;
        let resources = recorded_objects(&mut tx, row.service.id, &row.watches).await?;
        let divergences = drift::open_of(&mut tx, row.service.id).await?;
        Ok(Some(ServiceDetail { row, resources, divergences, receipt }))
    }
}

/// The pods that were last observed, with their namespace.
pub type Pods = (String, Vec<PodSeen>);

impl App {
    /// The pods of a service as last observed; `None` if there is no such service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_pods(
        &self,
        org: OrgId,
        project: &str,
        wanted: &str,
    ) -> Result<Option<Pods>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(row) = find(&mut tx, project, wanted).await? else { return Ok(None) };
        let (pods,): (Option<Json<Value>>,) = sqlx::query_as(
            "select inputs #> '{observation,pods}' from statuses
             where subject_kind = 'service' and subject_id = $1",
        )
        .bind(row.service.id.uuid())
        .fetch_one(&mut *tx)
        .await?;
        let pods = pods.map(|pods| read_json("pods", pods)).transpose()?.unwrap_or_default();
        Ok(Some((row.namespace, pods)))
    }
}

pub(crate) async fn find(
    tx: &mut Tx,
    project: &str,
    wanted: &str,
) -> Result<Option<ServiceRow>, Error> {
    fetch(tx, project, wanted).await?.as_ref().map(service_row).transpose()
}

async fn fetch(tx: &mut Tx, project: &str, wanted: &str) -> Result<Option<PgRow>, Error> {
    let project_id = project.parse::<ProjectId>().ok().map(ProjectId::uuid);
    let id = wanted.parse::<ServiceId>().ok().map(ServiceId::uuid);
    // Text that is not a valid name matches nothing, and Postgres does not accept all of it.
    let project_name = project.parse::<Name>().ok();
    let name = wanted.parse::<Name>().ok();
    let statement = format!(
        "{SELECT} where (p.name = $1 or p.id = $2)
           and (s.id = $4 or (s.name = $3 and s.deleted_at is null))"
    );
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(project_name.as_ref().map(Name::as_str))
        .bind(project_id)
        .bind(name.as_ref().map(Name::as_str))
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row)
}

pub(crate) async fn resources(
    tx: &mut Tx,
    service: ServiceId,
) -> Result<Vec<(ResourceKey, Option<String>)>, Error> {
    let objects = recorded_objects(tx, service, &Freshness::default()).await?;
    Ok(objects.into_iter().map(|object| (object.key, object.uid)).collect())
}

type RecordedColumns = (String, String, String, Option<String>, Option<jiff_sqlx::Timestamp>, bool);

/// The recorded objects of a service. One is present if the last observation has its uid.
async fn recorded_objects(
    tx: &mut Tx,
    service: ServiceId,
    watches: &Freshness,
) -> Result<Vec<RecordedObject>, Error> {
    let rows: Vec<RecordedColumns> = sqlx::query_as(
        "select r.kind, r.namespace, r.name, r.uid, r.seen_at,
                coalesce(t.inputs #> '{observation,objects}'
                         @> jsonb_build_array(jsonb_build_object('uid', r.uid)), false)
         from resources r
         left join statuses t on t.subject_kind = 'service' and t.subject_id = r.subject_id
         where r.subject_kind = 'service' and r.subject_id = $1 order by r.kind, r.name",
    )
    .bind(service.uuid())
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(kind, namespace, name, uid, seen_at, present)| {
            let key = ResourceKey { kind: read("kind", kind)?, namespace, name };
            let watched_at = watches.heard.get(&key.kind).copied().filter(|_| present);
            let seen_at = seen_at.map(jiff_sqlx::Timestamp::to_jiff);
            Ok(RecordedObject { key, uid, last_seen_at: seen_at.max(watched_at) })
        })
        .collect()
}

/// Reads the desired state from a row with its columns.
pub(crate) fn service(row: &PgRow) -> Result<Service, Error> {
    let version: i32 = row.try_get("template_version")?;
    Ok(Service {
        id: ServiceId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        project: ProjectId::from_uuid(row.try_get::<Uuid, _>("project_id")?),
        name: read("service name", row.try_get("name")?)?,
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        object_name: row.try_get("object_name")?,
        template: TemplateRef {
            name: read("template name", row.try_get("template_name")?)?,
            version: u32::try_from(version).unwrap_or(0),
        },
        parameters: read_json("parameters", row.try_get("parameters")?)?,
        drift: read_json("drift policy", row.try_get("drift")?)?,
        active: row
            .try_get::<Option<Json<Value>>, _>("active_hours")?
            .map(|hours| read_json("active hours", hours))
            .transpose()?,
        spec: read_json("spec", row.try_get("spec")?)?,
        desired: read("desired state", row.try_get("desired")?)?,
        scheduled_off: row.try_get("scheduled_off")?,
        generation: row.try_get("generation")?,
        accepted_at: row.try_get::<jiff_sqlx::Timestamp, _>("accepted_at")?.to_jiff(),
        created_at: row.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff(),
    })
}

fn frozen(row: &PgRow) -> Result<Option<Freeze>, Error> {
    for scope in [FreezeScope::Platform, FreezeScope::Cluster, FreezeScope::Service] {
        if let Some(found) = freeze(row, scope)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn service_row(row: &PgRow) -> Result<ServiceRow, Error> {
    Ok(ServiceRow {
        service: service(row)?,
        project_name: row.try_get("project_name")?,
        namespace: row.try_get("namespace")?,
        cluster_name: row.try_get("cluster_name")?,
        watches: freshness(row.try_get("watches")?)?,
        status: read_json("status", row.try_get("status")?)?,
        frozen: frozen(row)?,
        projection: row.try_get("projection")?,
        plan: row
            .try_get::<Option<Json<Value>>, _>("plan")?
            .map(|plan| read_json("plan", plan))
            .transpose()?,
    })
}
