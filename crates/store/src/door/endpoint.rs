//! Opens and closes endpoints. The port is allocated in the transaction that accepts the endpoint.

use jiff::Timestamp;
use trueup_model::endpoint::Endpoint;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{EndpointId, OrgId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Protocol;
use trueup_model::wake::Lane;
use trueup_rules::admit::Refused;
use trueup_rules::render::MOST_ENDPOINTS;
use uuid::Uuid;

use super::config::invalid;
use super::service::{check_generation, record_generation};
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::endpoint::{SELECT, endpoint};
use crate::service::service;
use crate::work::wake;
use crate::{App, Error, event};

/// Names an endpoint of a service.
#[derive(Debug, Clone, Copy)]
pub struct EndpointRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id.
    pub service: &'a str,
    /// Its name.
    pub name: &'a Name,
    /// Precondition: the service's generation that the caller read.
    pub if_generation: Option<i64>,
}

/// The port that an endpoint exposes.
#[derive(Debug, Clone, Copy)]
pub struct EndpointTarget<'a> {
    /// A port of the service's spec, by name.
    pub port: &'a str,
    /// Its protocol; must match that of the port if given.
    pub protocol: Option<Protocol>,
}

impl App {
    /// Opens an endpoint, or changes the port it exposes. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn open_endpoint(
        &self,
        org: OrgId,
        wanted: &EndpointRequest<'_>,
        target: &EndpointTarget<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Endpoint>, Refusal> {
        let mut tx = self.begin(org).await?;
        let current = lock(&mut tx, wanted).await?;
        let protocol = protocol(&current, target)?;
        let before = find(&mut tx, &current, wanted.name).await?;
        let id = match before {
            Some(row) if row.port == target.port && row.protocol == protocol => {
                return Ok(Accepted { row, changed: false });
            }
            Some(row) => redirect(&mut tx, row.id, target.port, protocol).await?,
            None => {
                check_limit(&mut tx, &current).await?;
                let id: EndpointId = new_id(now);
                let port = take_port(&mut tx, &current, id).await?;
                insert(
                    &mut tx,
                    &current,
                    (id, wanted.name, port),
                    (target.port, protocol),
                    context,
                    now,
                )
                .await?;
                id
            }
        };
        let row = read(&mut tx, id).await?;
        let next = next(current, now);
        record_generation(&mut tx, &next, "endpoint", context, now).await?;
        let fact = Fact::EndpointOpened {
            name: row.name.to_string(),
            port: row.port.clone(),
            node_port: row.node_port,
            principal: context.principal.name.clone(),
        };
        record_and_wake(&mut tx, &next, fact, context, now).await?;
        self.end(tx).await?;
        Ok(Accepted { row, changed: true })
    }

    /// Closes an endpoint. Its port is released once the cluster is observed without it.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn close_endpoint(
        &self,
        org: OrgId,
        wanted: &EndpointRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let mut tx = self.begin(org).await?;
        let current = lock(&mut tx, wanted).await?;
        let row = find(&mut tx, &current, wanted.name).await?;
        let row = row.ok_or(Refusal::NotFound("endpoint"))?;
        let next = next(current, now);
        sqlx::query("update endpoints set deleted_at = $2, deleted_generation = $3 where id = $1")
            .bind(row.id.uuid())
            .bind(sql(now))
            .bind(next.generation)
            .execute(&mut *tx)
            .await?;
        record_generation(&mut tx, &next, "endpoint", context, now).await?;
        let fact = Fact::EndpointClosed {
            name: row.name.to_string(),
            node_port: row.node_port,
            principal: context.principal.name.clone(),
        };
        record_and_wake(&mut tx, &next, fact, context, now).await?;
        self.end(tx).await?;
        Ok(())
    }
}

/// Locks the project, so that its endpoints can be counted, then the service.
async fn lock(tx: &mut Tx, wanted: &EndpointRequest<'_>) -> Result<Service, Refusal> {
    let found = crate::service::find(tx, wanted.project, wanted.service).await?;
    let found = found.ok_or(Refusal::NotFound("service"))?.service;
    sqlx::query("select 1 from projects where id = $1 for update")
        .bind(found.project.uuid())
        .execute(&mut **tx)
        .await?;
    let row = sqlx::query("select * from services where id = $1 for update")
        .bind(found.id.uuid())
        .fetch_one(&mut **tx)
        .await?;
    let current = service(&row)?;
    check_generation(Some(&current), wanted.if_generation)?;
    if current.desired == DesiredState::Deleted {
        return Err(Refusal::Refused(Refused::BeingDeleted));
    }
    Ok(current)
}

fn next(current: Service, now: Timestamp) -> Service {
    Service { generation: current.generation.saturating_add(1), accepted_at: now, ..current }
}

fn protocol(service: &Service, target: &EndpointTarget<'_>) -> Result<Protocol, Refusal> {
    let ports = &service.spec.ports;
    let Some(found) = ports.iter().find(|port| port.name == target.port) else {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("must be one of the service's ports: {}", names.join(", "));
        return Err(invalid("port", message));
    };
    match target.protocol {
        Some(wanted) if wanted != found.protocol => Err(invalid(
            "protocol",
            "must match the protocol of the port; correct it or leave it out".to_owned(),
        )),
        Some(_) | None => Ok(found.protocol),
    }
}

async fn find(tx: &mut Tx, service: &Service, name: &Name) -> Result<Option<Endpoint>, Error> {
    let statement =
        format!("{SELECT} where e.service_id = $1 and e.name = $2 and e.deleted_at is null");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(service.id.uuid())
        .bind(name.as_str())
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(endpoint).transpose()
}

async fn read(tx: &mut Tx, id: EndpointId) -> Result<Endpoint, Error> {
    let statement = format!("{SELECT} where e.id = $1");
    let row =
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(id.uuid()).fetch_one(&mut **tx).await?;
    endpoint(&row)
}

/// Refuses a new endpoint at the project's limit.
///
/// Endpoints that are being closed count: the cluster may still have them.
async fn check_limit(tx: &mut Tx, service: &Service) -> Result<(), Refusal> {
    let (count,): (i64,) = sqlx::query_as(
        "select count(*) from endpoints e join services s on s.id = e.service_id
         where s.project_id = $1 and e.released_at is null",
    )
    .bind(service.project.uuid())
    .fetch_one(&mut **tx)
    .await?;
    if count >= i64::from(MOST_ENDPOINTS) {
        let message =
            format!("the project has the maximum of {MOST_ENDPOINTS} endpoints; close one first");
        return Err(invalid("name", message));
    }
    Ok(())
}

/// Allocates the lowest free port in one statement. Two callers never get the same port.
async fn take_port(tx: &mut Tx, service: &Service, id: EndpointId) -> Result<i32, Refusal> {
    let (port,): (Option<i32>,) = sqlx::query_as("select take_port($1, $2)")
        .bind(service.cluster.uuid())
        .bind(id.uuid())
        .fetch_one(&mut **tx)
        .await?;
    let none = "the cluster has no free port; ask the operator for a larger port pool";
    port.ok_or_else(|| invalid("name", none.to_owned()))
}

async fn insert(
    tx: &mut Tx,
    service: &Service,
    (id, name, node_port): (EndpointId, &Name, i32),
    (port, protocol): (&str, Protocol),
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into endpoints (id, org_id, service_id, cluster_id, name, port, protocol, node_port,
                                made_by, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.uuid())
    .bind(service.org.uuid())
    .bind(service.id.uuid())
    .bind(service.cluster.uuid())
    .bind(name.as_str())
    .bind(port)
    .bind(protocol.into_str())
    .bind(node_port)
    .bind(&context.principal.name)
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn redirect(
    tx: &mut Tx,
    id: EndpointId,
    port: &str,
    protocol: Protocol,
) -> Result<EndpointId, Error> {
    let (id,): (Uuid,) =
        sqlx::query_as("update endpoints set port = $2, protocol = $3 where id = $1 returning id")
            .bind(id.uuid())
            .bind(port)
            .bind(protocol.into_str())
            .fetch_one(&mut **tx)
            .await?;
    Ok(EndpointId::from_uuid(id))
}

/// Records the event of an endpoint change and wakes the service.
async fn record_and_wake(
    tx: &mut Tx,
    service: &Service,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let event = NewEvent {
        id: new_id(now),
        org: service.org,
        source: Source::User,
        unit: Unit::Service(service.id),
        generation: service.generation,
        at: now,
        fact,
        trace: context.trace.clone(),
        cause: None,
    };
    event::record(tx, &[event]).await?;
    // The quota does not change. The wake is locked last, as everywhere.
    let (unit, cluster) = (Unit::Service(service.id), service.cluster);
    let wanted = wake::Request::by(context, unit, service.org, cluster, Lane::UserChange);
    wake::request(tx, &wanted, now).await
}
