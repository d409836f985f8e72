//! Requests DNS checks, and verifies a domain when its DNS record was found.
//!
//! Verification by DNS is the same accepted change of the service as verification by an operator.

use jiff::Timestamp;
use trueup_model::domain::Domain;
use trueup_model::event::{DomainCheckRequested, DomainVerified, Fact};
use trueup_model::id::{DomainId, OrgId};
use trueup_model::order::Unit;
use trueup_model::service::DesiredState;
use trueup_rules::admit::domain::requested_dns_check;

use super::domain::{DomainRequest, accept, find_by_id, lock, mark, own, read};
use super::write::Write;
use super::{Accepted, Refusal, RequestContext, system_principal};
use crate::App;
use crate::db::clock::sql;

/// The principal's name in events when DNS verified a host.
const DNS: &str = "dns";

impl App {
    /// Schedules a DNS check now, or as soon as the rate limit allows.
    ///
    /// Changes nothing if a check is already due or the domain is verified.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn request_domain_check(
        &self,
        org: OrgId,
        wanted: &DomainRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Domain>, Refusal> {
        self.write(org, context, now, |write| request_check(write, wanted)).await
    }

    /// Marks a domain as verified by DNS; returns whether that changed anything.
    ///
    /// A domain that was removed, verified or withdrawn meanwhile stays as it is.
    ///
    /// # Errors
    /// [`Refusal::NameTaken`] if another org has the verified host; the database cannot be reached.
    pub async fn record_verified_domain(
        &self,
        org: OrgId,
        domain: DomainId,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let principal = system_principal(org, DNS);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| record_verified(write, domain)).await
    }
}

async fn request_check(
    mut write: Write<'_>,
    wanted: &DomainRequest<'_>,
) -> Result<Accepted<Domain>, Refusal> {
    let current = lock(&mut write, wanted).await?;
    let row = own(&mut write.tx, &current, wanted.host).await?;
    if row.verified_at.is_some() {
        return Ok(Accepted { row, changed: false });
    }
    if row.search.withdrawn_at.is_some() {
        return Err(Refusal::Withdrawn);
    }
    if !schedule_check(&mut write, row.id).await? {
        return Ok(Accepted { row, changed: false });
    }
    let (host, principal) = (wanted.host.to_string(), write.principal());
    let fact = Fact::DomainCheckRequested(DomainCheckRequested { host, principal });
    write.record_about(Unit::Service(current.id), current.generation, fact).await?;
    let row = read(&mut write.tx, row.id).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn record_verified(mut write: Write<'_>, domain: DomainId) -> Result<bool, Refusal> {
    let Some(known) = find_by_id(&mut write.tx, domain).await? else { return Ok(false) };
    let current = write.lock_service(known.service).await?;
    // Read again: only under the service's lock it cannot change.
    let row = find_by_id(&mut write.tx, domain).await?;
    let open = |row: &Domain| row.verified_at.is_none() && row.search.withdrawn_at.is_none();
    let Some(row) = row.filter(open) else { return Ok(false) };
    if current.desired == DesiredState::Deleted {
        return Ok(false);
    }
    mark(&mut write, domain, true).await?;
    let (host, principal) = (row.host.to_string(), write.principal());
    let fact = Fact::DomainVerified(DomainVerified { host, verified: true, principal });
    accept(&mut write, current, fact).await?;
    write.finish(true).await
}

/// Starts a new round of checks; returns false if one was about to start anyway.
async fn schedule_check(write: &mut Write<'_>, domain: DomainId) -> Result<bool, Refusal> {
    let now = write.now;
    let (check_started_at,): (Option<jiff_sqlx::Timestamp>,) =
        sqlx::query_as("select check_started_at from domains where id = $1 for update")
            .bind(domain.uuid())
            .fetch_one(&mut *write.tx)
            .await?;
    let at = requested_dns_check(check_started_at.map(jiff_sqlx::Timestamp::to_jiff), now);
    let scheduled = sqlx::query(
        "update domains set check_requested_at = $3, checks = 0, next_check_at = least(next_check_at, $2)
         where id = $1 and not (checks = 0 and next_check_at is not null and next_check_at <= $2)",
    )
    .bind(domain.uuid())
    .bind(sql(at))
    .bind(sql(now))
    .execute(&mut *write.tx)
    .await?;
    Ok(scheduled.rows_affected() == 1)
}
