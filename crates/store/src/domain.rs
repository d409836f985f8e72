//! Domains: reading them, and the routes of orders.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Routing;
use trueup_model::domain::{DnsCheck, DnsResult, Domain, Route, Search, Tls};
use trueup_model::id::{DomainId, OrgId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::observation::Sighting;
use trueup_model::status::Inputs;
use trueup_rules::render::names;
use trueup_rules::status::observe::route_state;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, read_json};
use crate::{App, Error, project};

/// Everything about domains that are not removed.
pub(crate) const SELECT: &str =
    "select d.id, d.host, d.service_id, d.tls, d.made_by, d.created_at, d.verified_at,
        d.next_check_at, d.checked_at, d.check_result, d.check_detail, d.withdrawn_at, s.name as service_name, s.object_name, t.inputs
     from domains d
     join services s on s.id = d.service_id
     join statuses t on t.subject_kind = 'service' and t.subject_id = s.id";

impl App {
    /// The domains of a project's services, in service and host order; `None` if there is no such
    /// project.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_domains(
        &self,
        org: OrgId,
        project: &str,
    ) -> Result<Option<Vec<Domain>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = project::find(&mut tx, project).await? else {
            return Ok(None);
        };
        let statement = format!(
            "{SELECT} where s.project_id = $1 and d.deleted_at is null order by s.name, d.host"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(found.project.id.uuid())
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(domain).collect::<Result<_, _>>().map(Some)
    }
}

pub(crate) fn domain(row: &PgRow) -> Result<Domain, Error> {
    let id = DomainId::from_uuid(row.try_get("id")?);
    let object_name: String = row.try_get("object_name")?;
    let verified_at: Option<jiff_sqlx::Timestamp> = row.try_get("verified_at")?;
    let inputs: Option<Json<Value>> = row.try_get("inputs")?;
    let inputs: Option<Inputs> = inputs.map(|json| read_json("inputs", json)).transpose()?;
    let name = names::domain(&object_name, id);
    let seen = inputs.map(|inputs| inputs.observation.objects).unwrap_or_default();
    let route = find_seen(&seen, &[Kind::Ingress, Kind::HttpRoute], &name);
    let certificate = find_seen(&seen, &[Kind::Certificate], &name);
    Ok(Domain {
        id,
        host: read("host", row.try_get("host")?)?,
        service: ServiceId::from_uuid(row.try_get("service_id")?),
        service_name: row.try_get("service_name")?,
        tls: tls(row)?,
        state: route_state(verified_at.is_some(), route.as_ref()),
        route,
        certificate,
        verified_at: verified_at.map(jiff_sqlx::Timestamp::to_jiff),
        search: search(row)?,
        made_by: row.try_get("made_by")?,
        created_at: row.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff(),
    })
}

/// The object of a domain among the observed ones. While a gateway takes over from an ingress there
/// may be two; the one that is being deleted routes nothing any more.
fn find_seen(seen: &[Sighting], kinds: &[Kind], name: &str) -> Option<Sighting> {
    seen.iter()
        .filter(|one| kinds.contains(&one.key.kind) && one.key.name == name)
        .min_by_key(|one| one.terminating)
        .cloned()
}

fn search(row: &PgRow) -> Result<Search, Error> {
    let time = |name| {
        let at: Option<jiff_sqlx::Timestamp> = row.try_get(name)?;
        Ok::<_, Error>(at.map(jiff_sqlx::Timestamp::to_jiff))
    };
    let (result, why): (Option<String>, Option<String>) =
        (row.try_get("check_result")?, row.try_get("check_detail")?);
    let last = match (time("checked_at")?, result, why) {
        // An unknown result comes from a newer version and counts as indeterminate.
        (Some(at), Some(result), Some(why)) => {
            Some(DnsCheck { at, result: result.parse().unwrap_or(DnsResult::Indeterminate), why })
        }
        _ => None,
    };
    Ok(Search { last, next_at: time("next_check_at")?, withdrawn_at: time("withdrawn_at")? })
}

fn tls(row: &PgRow) -> Result<Tls, Error> {
    let text: String = row.try_get("tls")?;
    Ok(text.parse().unwrap_or_default())
}

/// The verified hosts of these services, in order, with the routing of their cluster.
pub(crate) async fn routes(
    tx: &mut Tx,
    services: &[Uuid],
) -> Result<Vec<(ServiceId, Route, Routing)>, Error> {
    let rows = sqlx::query(
        "select d.id, d.service_id, d.host, d.tls, c.routing from domains d
         join services s on s.id = d.service_id
         join clusters c on c.id = s.cluster_id
         where d.service_id = any($1) and d.verified_at is not null and d.deleted_at is null
         order by d.host",
    )
    .bind(services)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter()
        .map(|row| {
            let route = Route {
                id: DomainId::from_uuid(row.try_get("id")?),
                host: read("host", row.try_get("host")?)?,
                tls: tls(row)?,
            };
            let routing = read_json("routing", row.try_get("routing")?)?;
            Ok((ServiceId::from_uuid(row.try_get("service_id")?), route, routing))
        })
        .collect()
}

/// Releases the hosts of a service whose absence is verified.
pub(crate) async fn release_all(
    tx: &mut Tx,
    service: ServiceId,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query("update domains set deleted_at = $2 where service_id = $1 and deleted_at is null")
        .bind(service.uuid())
        .bind(sql(now))
        .execute(&mut **tx)
        .await?;
    Ok(())
}
