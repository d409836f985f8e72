//! Adds, verifies and removes domains. Each is an accepted change of the service.

use jiff::Timestamp;
use trueup_model::domain::{Domain, Host, Tls};
use trueup_model::event::{DomainAdded, DomainRemoved, DomainVerified, Fact};
use trueup_model::id::{DomainId, OrgId};
use trueup_model::order::Unit;
use trueup_model::service::Service;
use trueup_model::wake::Lane;
use trueup_rules::admit::domain::{MOST_DOMAINS, http_port, next_dns_check};

use super::config::invalid;
use super::generation::next;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::domain::{SELECT, domain};
use crate::{App, Error};

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
        self.write(org, context, now, |write| add(write, wanted, tls)).await
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
        self.write(org, context, now, |write| verify(write, wanted, verified)).await
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
        self.write(org, context, now, |write| remove(write, wanted)).await
    }
}

async fn add(
    mut write: Write<'_>,
    wanted: &DomainRequest<'_>,
    tls: Tls,
) -> Result<Accepted<Domain>, Refusal> {
    let current = lock(&mut write, wanted).await?;
    if http_port(&current.spec).is_none() {
        let message = "the service has no port named `http`; open an endpoint instead";
        return Err(invalid("service", message.to_owned()));
    }
    let id = match find(&mut write.tx, wanted.host).await? {
        Some(row) if row.service != current.id => {
            let message =
                format!("already routed to service `{}`; remove it there first", row.service_name);
            return Err(invalid("host", message));
        }
        Some(row) if row.tls == tls => return Ok(Accepted { row, changed: false }),
        Some(row) => {
            sqlx::query("update domains set tls = $2 where id = $1")
                .bind(row.id.uuid())
                .bind(tls.into_str())
                .execute(&mut *write.tx)
                .await?;
            row.id
        }
        None => insert(&mut write, &current, wanted.host, tls).await?,
    };
    let fact = Fact::DomainAdded(DomainAdded {
        host: wanted.host.to_string(),
        principal: write.principal(),
    });
    accept(&mut write, current, fact).await?;
    let row = read(&mut write.tx, id).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn verify(
    mut write: Write<'_>,
    wanted: &DomainRequest<'_>,
    verified: bool,
) -> Result<Accepted<Domain>, Refusal> {
    let current = lock(&mut write, wanted).await?;
    let row = own(&mut write.tx, &current, wanted.host).await?;
    if row.verified_at.is_some() == verified {
        return Ok(Accepted { row, changed: false });
    }
    mark(&mut write, row.id, verified).await?;
    let (host, principal) = (wanted.host.to_string(), write.principal());
    let fact = Fact::DomainVerified(DomainVerified { host, verified, principal });
    accept(&mut write, current, fact).await?;
    let row = read(&mut write.tx, row.id).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn remove(mut write: Write<'_>, wanted: &DomainRequest<'_>) -> Result<(), Refusal> {
    let current = lock(&mut write, wanted).await?;
    let row = own(&mut write.tx, &current, wanted.host).await?;
    sqlx::query("update domains set deleted_at = $2 where id = $1")
        .bind(row.id.uuid())
        .bind(sql(write.now))
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::DomainRemoved(DomainRemoved {
        host: wanted.host.to_string(),
        principal: write.principal(),
    });
    accept(&mut write, current, fact).await?;
    write.finish(()).await
}

/// Marks a domain as verified by the principal, or its verification as withdrawn.
///
/// A withdrawn domain is not checked again: the next DNS check would undo the operator's decision.
pub(super) async fn mark(
    write: &mut Write<'_>,
    domain: DomainId,
    verified: bool,
) -> Result<(), Refusal> {
    sqlx::query(
        "update domains set verified_at = $2, verified_by = $3, withdrawn_at = $4, next_check_at = null
         where id = $1",
    )
    .bind(domain.uuid())
    .bind(verified.then(|| sql(write.now)))
    .bind(verified.then(|| write.principal_name()))
    .bind((!verified).then(|| sql(write.now)))
    .execute(&mut *write.tx)
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

/// Finds the service and locks it.
pub(super) async fn lock(
    write: &mut Write<'_>,
    wanted: &DomainRequest<'_>,
) -> Result<Service, Refusal> {
    let found = write.find_service(wanted.project, wanted.service).await?.service.id;
    write.lock_for_change(found, wanted.if_generation).await
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
    write: &mut Write<'_>,
    service: &Service,
    host: &Host,
    tls: Tls,
) -> Result<DomainId, Refusal> {
    let (count,): (i64,) =
        sqlx::query_as("select count(*) from domains where service_id = $1 and deleted_at is null")
            .bind(service.id.uuid())
            .fetch_one(&mut *write.tx)
            .await?;
    if count >= MOST_DOMAINS {
        let message =
            format!("the service has the maximum of {MOST_DOMAINS} domains; remove one first");
        return Err(invalid("host", message));
    }
    let now = write.now;
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
    .bind(write.principal_name())
    .bind(sql(now))
    .bind(next_dns_check(now, 0, now).map(sql))
    .execute(&mut *write.tx)
    .await?;
    Ok(id)
}

/// Records a domain change: the next generation of the service, the event and the wake.
pub(super) async fn accept(
    write: &mut Write<'_>,
    current: Service,
    fact: Fact,
) -> Result<(), Error> {
    let next = next(current, write.now);
    let unit = Unit::Service(next.id);
    write.record_generation(&next, "domain").await?;
    write.record_about(unit, next.generation, fact).await?;
    write.wake(unit, next.cluster, Lane::UserChange).await
}
