//! Adding, proving and removing domains. Each is an accepted change of the service.

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
use super::race::again;
use super::service::{check_generation, write_down};
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::domain::{SELECT, domain};
use crate::service::service;
use crate::work::wake;
use crate::{App, Error, event};

/// Which domain somebody speaks of.
#[derive(Debug, Clone, Copy)]
pub struct DomainRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id.
    pub service: &'a str,
    /// Its host.
    pub host: &'a Host,
    /// The generation of the service that the caller saw.
    pub if_generation: Option<i64>,
}

impl App {
    /// Asks for a host to lead to a service. It does so once it is proved to be the org's. Asking for
    /// what is promised already changes nothing.
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
        again(|| self.try_add_domain(org, wanted, tls, context, now)).await
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
            let message =
                "the service speaks no HTTP: it has no port called `http`; open an endpoint";
            return Err(invalid("service", message.to_owned()));
        }
        let id = match find(&mut tx, wanted.host).await? {
            Some(row) if row.service != current.id => {
                let message =
                    format!("leads to `{}` already; remove it there first", row.service_name);
                return Err(invalid("host", message));
            }
            Some(row) if row.tls == tls => return Ok(Accepted { row, changed: false }),
            Some(row) => {
                sqlx::query("update domains set tls = $2 where id = $1")
                    .bind(row.id.uuid())
                    .bind(tls.as_str())
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

    /// Says that a host is proved to be the org's, or that it is not any more. One org has it at a time.
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
        again(|| self.try_verify_domain(org, wanted, verified, context, now)).await
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

    /// Asks for a host to lead to a service no more.
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
        again(|| self.try_remove_domain(org, wanted, context, now)).await
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

/// Notes that a host is proved, or that its proof was taken back: then its text proves nothing any more, or
/// the next look would undo what the operator did.
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

/// Two orgs cannot both have a host. Only who may prove it ever hears of this.
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

/// The same, if it leads to this service.
pub(super) async fn own(tx: &mut Tx, service: &Service, host: &Host) -> Result<Domain, Refusal> {
    let found = find(tx, host).await?.filter(|row| row.service == service.id);
    found.ok_or(Refusal::NotFound("domain"))
}

pub(super) async fn read(tx: &mut Tx, id: DomainId) -> Result<Domain, Error> {
    find_by_id(tx, id).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
}

/// The org's domain with this id, unless it is removed.
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
        let message = format!("the service has {MOST_DOMAINS} domains already; remove one first");
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
    .bind(tls.as_str())
    .bind(&context.principal.name)
    .bind(sql(now))
    .bind(next_dns_check(now, 0, now).map(sql))
    .execute(&mut **tx)
    .await?;
    Ok(id)
}

/// Writes down what changed: the next generation, its event and its wake.
pub(super) async fn accept(
    tx: &mut Tx,
    current: Service,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let generation = current.generation.saturating_add(1);
    let next = Service { generation, accepted_at: now, ..current };
    write_down(tx, &next, "domain", context, now).await?;
    let told = NewEvent {
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
    event::record(tx, &[told]).await?;
    let unit = Unit::Service(next.id);
    let wanted = wake::Request::by(context, unit, next.org, next.cluster, Lane::UserChange);
    Ok(wake::request(tx, &wanted, now).await?)
}
