//! Endpoints: reading them, releasing their ports, and the port pool.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::endpoint::{Endpoint, EndpointState, OpenPort};
use trueup_model::id::{ClusterId, EndpointId, OrgId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::status::Inputs;
use trueup_rules::render::names;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, read_json};
use crate::db::setup::Setup;
use crate::{App, Error, project};

/// All columns of endpoints.
pub(crate) const SELECT: &str =
    "select e.id, e.name, e.service_id, e.port, e.protocol, e.node_port,
        e.made_by, e.created_at, e.deleted_at, s.name as service_name, s.object_name,
        c.name as cluster_name, c.routing ->> 'address' as host, t.inputs
     from endpoints e
     join services s on s.id = e.service_id
     join clusters c on c.id = e.cluster_id
     join statuses t on t.subject_kind = 'service' and t.subject_id = s.id";

/// Ends a statement whose `gone` are released endpoints: they no longer count in their org's quota.
const UNCOUNTED: &str = ", counted as (
     update quotas q set endpoints_used = q.endpoints_used - g.count
     from (select org_id, count(*) as count from gone group by org_id) g where q.org_id = g.org_id)
     select id from gone";

impl App {
    /// The endpoints of a project's services whose ports are not released, in service and name
    /// order; `None` if there is no such project.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_endpoints(
        &self,
        org: OrgId,
        project: &str,
    ) -> Result<Option<Vec<Endpoint>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = project::find(&mut tx, project).await? else {
            return Ok(None);
        };
        let statement = format!(
            "{SELECT} where s.project_id = $1 and e.released_at is null
             order by s.name, e.name, e.created_at"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(found.project.id.uuid())
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(endpoint).collect::<Result<_, _>>().map(Some)
    }
}

impl Setup {
    /// Adds these ports to the port pool of a cluster.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_endpoint_pool(
        &self,
        cluster: ClusterId,
        ports: std::ops::RangeInclusive<u16>,
    ) -> Result<(), Error> {
        sqlx::query(
            "insert into endpoint_ports (cluster_id, port)
             select $1, port from generate_series($2::int, $3::int) as port
             on conflict (cluster_id, port) do nothing",
        )
        .bind(cluster.uuid())
        .bind(i32::from(*ports.start()))
        .bind(i32::from(*ports.end()))
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

pub(crate) fn endpoint(row: &PgRow) -> Result<Endpoint, Error> {
    let id = EndpointId::from_uuid(row.try_get("id")?);
    let object_name: String = row.try_get("object_name")?;
    let deleted_at: Option<jiff_sqlx::Timestamp> = row.try_get("deleted_at")?;
    let inputs: Option<Json<Value>> = row.try_get("inputs")?;
    let inputs: Option<Inputs> = inputs.map(|json| read_json("inputs", json)).transpose()?;
    let name = names::endpoint(&object_name, id);
    let seen = inputs.is_some_and(|inputs| {
        let objects = inputs.observation.objects;
        objects.iter().any(|seen| seen.key.kind == Kind::Service && seen.key.name == name)
    });
    Ok(Endpoint {
        id,
        name: read("endpoint name", row.try_get("name")?)?,
        service: ServiceId::from_uuid(row.try_get("service_id")?),
        service_name: row.try_get("service_name")?,
        cluster_name: row.try_get("cluster_name")?,
        port: row.try_get("port")?,
        protocol: read("protocol", row.try_get("protocol")?)?,
        node_port: number(row)?,
        host: row.try_get("host")?,
        state: match (deleted_at, seen) {
            (Some(_), _) => EndpointState::Closing,
            (None, true) => EndpointState::Open,
            (None, false) => EndpointState::Opening,
        },
        made_by: row.try_get("made_by")?,
        created_at: row.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff(),
    })
}

fn number(row: &PgRow) -> Result<u16, Error> {
    let number: i32 = row.try_get("node_port")?;
    u16::try_from(number).map_err(|source| Error::corrupt("port", source))
}

/// The open ports of these services, in port order.
pub(crate) async fn open_ports(
    tx: &mut Tx,
    services: &[Uuid],
) -> Result<Vec<(ServiceId, OpenPort)>, Error> {
    let rows = sqlx::query(
        "select id, service_id, port, protocol, node_port from endpoints
         where service_id = any($1) and deleted_at is null order by node_port",
    )
    .bind(services)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter()
        .map(|row| {
            let open = OpenPort {
                id: EndpointId::from_uuid(row.try_get("id")?),
                port: row.try_get("port")?,
                protocol: read("protocol", row.try_get("protocol")?)?,
                node_port: number(row)?,
            };
            Ok((ServiceId::from_uuid(row.try_get("service_id")?), open))
        })
        .collect()
}

/// Releases the ports of closed endpoints of services that converged on the closing generation.
///
/// `converged` holds each service with the generation it was observed with.
pub(crate) async fn release(
    tx: &mut Tx,
    converged: &[(ServiceId, i64)],
    now: Timestamp,
) -> Result<(), Error> {
    if converged.is_empty() {
        return Ok(());
    }
    let released: Vec<(Uuid,)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "with gone as (
             update endpoints e set released_at = $3
             from unnest($1::uuid[], $2::bigint[]) as c (service_id, generation)
             where e.service_id = c.service_id and e.released_at is null
               and e.deleted_generation <= c.generation
             returning e.id, e.org_id) {UNCOUNTED}"
    )))
    .bind(converged.iter().map(|(service, _)| service.uuid()).collect::<Vec<_>>())
    .bind(converged.iter().map(|(_, generation)| *generation).collect::<Vec<_>>())
    .bind(sql(now))
    .fetch_all(&mut **tx)
    .await?;
    if !released.is_empty() {
        free(tx, &released.into_iter().map(|(id,)| id).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Releases every port of a service whose absence is verified.
pub(crate) async fn release_all(
    tx: &mut Tx,
    service: ServiceId,
    now: Timestamp,
) -> Result<(), Error> {
    let released: Vec<(Uuid,)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "with gone as (
             update endpoints set released_at = $2, deleted_at = coalesce(deleted_at, $2)
             where service_id = $1 and released_at is null returning id, org_id) {UNCOUNTED}"
    )))
    .bind(service.uuid())
    .bind(sql(now))
    .fetch_all(&mut **tx)
    .await?;
    free(tx, &released.into_iter().map(|(id,)| id).collect::<Vec<_>>()).await
}

async fn free(tx: &mut Tx, endpoints: &[Uuid]) -> Result<(), Error> {
    sqlx::query("update endpoint_ports set endpoint_id = null where endpoint_id = any($1)")
        .bind(endpoints)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
