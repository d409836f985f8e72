//! Opens and closes endpoints. The port is allocated in the transaction that accepts the endpoint.

use jiff::Timestamp;
use trueup_model::endpoint::Endpoint;
use trueup_model::event::{EndpointClosed, EndpointOpened, Fact};
use trueup_model::id::{EndpointId, OrgId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::service::Service;
use trueup_model::spec::Protocol;
use trueup_model::wake::Lane;
use trueup_rules::render::MOST_ENDPOINTS;
use uuid::Uuid;

use super::config::invalid;
use super::generation::next;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::endpoint::{SELECT, endpoint};
use crate::{App, Error, quota};

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
        self.write(org, context, now, |write| open(write, wanted, target)).await
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
        self.write(org, context, now, |write| close(write, wanted)).await
    }
}

async fn open(
    mut write: Write<'_>,
    wanted: &EndpointRequest<'_>,
    target: &EndpointTarget<'_>,
) -> Result<Accepted<Endpoint>, Refusal> {
    let current = lock(&mut write, wanted).await?;
    let protocol = protocol(&current, target)?;
    let before = find(&mut write.tx, &current, wanted.name).await?;
    let id = match before {
        Some(row) if row.port == target.port && row.protocol == protocol => {
            return Ok(Accepted { row, changed: false });
        }
        Some(row) => redirect(&mut write.tx, row.id, target.port, protocol).await?,
        None => {
            check_limit(&mut write.tx, &current).await?;
            quota::take_endpoint(&mut write.tx).await?;
            let id: EndpointId = new_id(write.now);
            let port = take_port(&mut write.tx, &current, id).await?;
            let (new, exposes) = ((id, wanted.name, port), (target.port, protocol));
            insert(&mut write, &current, new, exposes).await?;
            id
        }
    };
    let row = read(&mut write.tx, id).await?;
    let next = next(current, write.now);
    let fact = Fact::EndpointOpened(EndpointOpened {
        name: row.name.to_string(),
        port: row.port.clone(),
        node_port: row.node_port,
        principal: write.principal(),
    });
    accept(&mut write, &next, fact).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn close(mut write: Write<'_>, wanted: &EndpointRequest<'_>) -> Result<(), Refusal> {
    let current = lock(&mut write, wanted).await?;
    let row = find(&mut write.tx, &current, wanted.name).await?;
    let row = row.ok_or(Refusal::NotFound("endpoint"))?;
    let next = next(current, write.now);
    sqlx::query("update endpoints set deleted_at = $2, deleted_generation = $3 where id = $1")
        .bind(row.id.uuid())
        .bind(sql(write.now))
        .bind(next.generation)
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::EndpointClosed(EndpointClosed {
        name: row.name.to_string(),
        node_port: row.node_port,
        principal: write.principal(),
    });
    accept(&mut write, &next, fact).await?;
    write.finish(()).await
}

/// Locks the project, so that its endpoints can be counted, then the service.
async fn lock(write: &mut Write<'_>, wanted: &EndpointRequest<'_>) -> Result<Service, Refusal> {
    let found = write.find_service(wanted.project, wanted.service).await?.service;
    write.lock_project(found.project).await?;
    write.lock_for_change(found.id, wanted.if_generation).await
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
    write: &mut Write<'_>,
    service: &Service,
    (id, name, node_port): (EndpointId, &Name, i32),
    (port, protocol): (&str, Protocol),
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
    .bind(write.principal_name())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
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

/// Records an endpoint change: the next generation of the service, the event and the wake.
async fn accept(write: &mut Write<'_>, next: &Service, fact: Fact) -> Result<(), Error> {
    let unit = Unit::Service(next.id);
    write.record_generation(next, "endpoint").await?;
    write.record_about(unit, next.generation, fact).await?;
    // The wake is locked last, as everywhere.
    write.wake(unit, next.cluster, Lane::UserChange).await
}
