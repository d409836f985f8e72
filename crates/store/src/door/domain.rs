//! Adds, verifies and removes domains. Each is an accepted change of the service.

use jiff::Timestamp;
use trueup_model::domain::{Domain, Host, Tls};
use trueup_model::event::{Fact, NewEvent};
use trueup_model::id::{DomainId, OrgId};
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Lane;
use trueup_rules::admit::Refused;
use trueup_rules::admit::domain::{MOST_DOMAINS, http_port, next_dns_check};

use super::config::invalid;
use super::race::retry_on_conflict;
use super::service::{check_generation, record_generation};
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::domain::{SELECT, domain};
use crate::service::service;
use crate::work::wake;
use crate::{App, Error, event};

/// Names a domain of a service.
#[derive(Debug, Clone, Copy)]
pub struct DomainRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id.
    pub service: &'a str,
    /// Its host.
    pub host: &'a Host,
    /// Precondition: the service's generation that the caller read.
    pub if_generation: Option<i64>,
}

impl App {
    /// Adds a domain to a service. Its host is routed once the org's ownership is verified.
    ///
    /// Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn add_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        tls: Tls,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Domain>, Refusal> {
        retry_on_conflict(|| self.try_add_domain(org, wanted, tls, context, now)).await
    }

    async fn try_add_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        tls: Tls,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Domain>, Refusal> {
        let mut tx = self.begin(org).await?;
        let current = lock(&mut tx, wanted).await?;
        if http_port(&current.spec).is_none() {
            let message = "the service has no port named `http`; open an endpoint instead";
            return Err(invalid("service", message.to_owned()));
        }
        let id = match find(&mut tx, wanted.host).await? {
            Some(row) if row.service != current.id => {
                let message = format!(
                    "already routed to service `{}`; remove it there first",
                    row.service_name
                );
                return Err(invalid("host", message));
            }
            Some(row) if row.tls == tls => return Ok(Accepted { row, changed: false }),
            Some(row) => {
                sqlx::query("update domains set tls = $2 where id = $1")
                    .bind(row.id.uuid())
                    .bind(tls.into_str())
                    .execute(&mut *tx)
                    .await?;
                row.id
            }
            None => insert(&mut tx, &current, wanted.host, tls, context, now).await?,
        };
        let principal = context.principal.name.clone();
        let fact = Fact::DomainAdded { host: wanted.host.to_string(), principal };
        accept(&mut tx, current, fact, context, now).await?;
        let row = read(&mut tx, id).await?;
        self.end(tx).await?;
        Ok(Accepted { row, changed: true })
    }

    /// Sets or withdraws the verification of a host, as an operator.
    ///
    /// Only one org can have a verified host.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn verify_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        verified: bool,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Domain>, Refusal> {
        retry_on_conflict(|| self.try_verify_domain(org, wanted, verified, context, now)).await
    }

    async fn try_verify_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        verified: bool,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Domain>, Refusal> {
        let mut tx = self.begin(org).await?;
        let current = lock(&mut tx, wanted).await?;
        let row = own(&mut tx, &current, wanted.host).await?;
        if row.verified_at.is_some() == verified {
            return Ok(Accepted { row, changed: false });
        }
        let principal = context.principal.name.clone();
        mark(&mut tx, row.id, verified, &principal, now).await?;
        let fact = Fact::DomainVerified { host: wanted.host.to_string(), verified, principal };
        accept(&mut tx, current, fact, context, now).await?;
        let row = read(&mut tx, row.id).await?;
        self.end(tx).await?;
        Ok(Accepted { row, changed: true })
    }

    /// Removes a domain from a service.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn remove_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        retry_on_conflict(|| self.try_remove_domain(org, wanted, context, now)).await
    }

    async fn try_remove_domain(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let mut tx = self.begin(org).await?;
        let current = lock(&mut tx, wanted).await?;
        let row = own(&mut tx, &current, wanted.host).await?;
        sqlx::query("update domains set deleted_at = $2 where id = $1")
            .bind(row.id.uuid())
            .bind(sql(now))
            .execute(&mut *tx)
            .await?;
        let principal = context.principal.name.clone();
        let fact = Fact::DomainRemoved { host: wanted.host.to_string(), principal };
        accept(&mut tx, current, fact, context, now).await?;
        self.end(tx).await?;
        Ok(())
    }
}

/// Marks a domain as verified, or its verification as withdrawn.
///
/// A withdrawn domain is not checked again: the next DNS check would undo the operator's decision.
pub(super) async fn mark(
    tx: &mut Tx,
    domain: DomainId,
    verified: bool,
    by: &str,
    now: Timestamp,
) -> Result<(), Refusal> {
    sqlx::query(
        "update domains set verified_at = $2, verified_by = $3, withdrawn_at = $4, next_check_at = null
         where id = $1",
    )
    .bind(domain.uuid())
    .bind(verified.then(|| sql(now)))
    .bind(verified.then_some(by))
    .bind((!verified).then(|| sql(now)))
    .execute(&mut **tx)
    .await
    .map_err(taken)?;
    Ok(())
}

/// Only one org can have a verified host. Only callers that may verify hosts see this refusal.
fn taken(error: sqlx::Error) -> Refusal {
    let rule = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
    if rule == Some("domains_host_key") {
        Refusal::NameTaken("verified domain")
    } else {
        error.into()
    }
}

pub(super) async fn lock(tx: &mut Tx, wanted: &DomainRequest<'_>) -> Result<Service, Refusal> {
    let found = crate::service::find(tx, wanted.project, wanted.service).await?;
    let found = found.ok_or(Refusal::NotFound("service"))?.service;
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

/// The org's domain with this host.
async fn find(tx: &mut Tx, host: &Host) -> Result<Option<Domain>, Error> {
    let statement =
        format!("{SELECT} where d.org_id = trueup_org() and d.host = $1 and d.deleted_at is null");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(host.as_str())
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(domain).transpose()
}

/// The domain with this host, if it belongs to this service.
pub(super) async fn own(tx: &mut Tx, service: &Service, host: &Host) -> Result<Domain, Refusal> {
    let found = find(tx, host).await?.filter(|row| row.service == service.id);
    found.ok_or(Refusal::NotFound("domain"))
}

pub(super) async fn read(tx: &mut Tx, id: DomainId) -> Result<Domain, Error> {
    find_by_id(tx, id).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
}

/// The org's domain with this id, unless it was removed.
pub(super) async fn find_by_id(tx: &mut Tx, id: DomainId) -> Result<Option<Domain>, Error> {
    let statement = format!("{SELECT} where d.id = $1 and d.deleted_at is null");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(domain).transpose()
}

async fn insert(
    tx: &mut Tx,
    service: &Service,
    host: &Host,
    tls: Tls,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<DomainId, Refusal> {
    let (count,): (i64,) =
        sqlx::query_as("select count(*) from domains where service_id = $1 and deleted_at is null")
            .bind(service.id.uuid())
            .fetch_one(&mut **tx)
            .await?;
    if count >= MOST_DOMAINS {
        let message =
            format!("the service has the maximum of {MOST_DOMAINS} domains; remove one first");
        return Err(invalid("host", message));
    }
    let id: DomainId = new_id(now);
    sqlx::query(
        "insert into domains (id, org_id, service_id, host, tls, made_by, created_at, check_requested_at, next_check_at)
         values ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
    )
    .bind(id.uuid())
    .bind(service.org.uuid())
    .bind(service.id.uuid())
    .bind(host.as_str())
    .bind(tls.into_str())
    .bind(&context.principal.name)
    .bind(sql(now))
    .bind(next_dns_check(now, 0, now).map(sql))
    .execute(&mut **tx)
    .await?;
    Ok(id)
}

/// Records a domain change: the next generation of the service, the event and the wake.
pub(super) async fn accept(
    tx: &mut Tx,
    current: Service,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let generation = current.generation.saturating_add(1);
    let next = Service { generation, accepted_at: now, ..current };
    record_generation(tx, &next, "domain", context, now).await?;
    let event = NewEvent {
        id: new_id(now),
        org: next.org,
        source: context.source,
        unit: Unit::Service(next.id),
        generation,
        at: now,
        fact,
        trace: context.trace.clone(),
        cause: None,
    };
    event::record(tx, &[event]).await?;
    let unit = Unit::Service(next.id);
    let wanted = wake::Request::by(context, unit, next.org, next.cluster, Lane::UserChange);
    Ok(wake::request(tx, &wanted, now).await?)
}
