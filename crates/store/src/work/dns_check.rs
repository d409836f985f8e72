//! DNS checks for domain verification: which are due, and their results.
//!
//! Claiming a check schedules the next one in the same transaction: a crash leaves no claim behind,
//! and no two processes claim the same check.

use jiff::Timestamp;
use sqlx::Row;
use trueup_model::domain::{DnsResult, Host};
use trueup_model::event::{DomainContested, Fact, NewEvent, Source};
use trueup_model::id::{DomainId, OrgId};
use trueup_rules::admit::domain::next_dns_check;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::{Error, Worker, event};

/// The detail shown to an org whose verified host belongs to another org.
///
/// It gives no reason: only operators may learn that another org has the host.
const CONTESTED: &str = "ownership of the host could not be decided; ask the operator";

/// A domain whose DNS check is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDnsCheck {
    /// The org of the domain.
    pub org: OrgId,
    /// The domain; its id is part of the expected TXT record.
    pub domain: DomainId,
    /// Its host.
    pub host: Host,
}

impl Worker {
    /// Claims due checks: at most `most`, at most `most_of_one` per org, none of the orgs
    /// `without`.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn claim_dns_checks(
        &self,
        most: i64,
        most_of_one: i64,
        without: &[OrgId],
        now: Timestamp,
    ) -> Result<Vec<DueDnsCheck>, Error> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "select id, org_id, host, checks, coalesce(check_requested_at, created_at) as check_requested_at from domains
             where id in (select id from (
                     select id, next_check_at, row_number() over (partition by org_id order by next_check_at) as place
                     from domains where next_check_at <= $1 and verified_at is null and deleted_at is null
                       and org_id <> all($4)) due
                 where place <= $3 order by next_check_at limit $2)
               and next_check_at <= $1 and verified_at is null and deleted_at is null
             order by next_check_at for update skip locked",
        )
        .bind(sql(now))
        .bind(most)
        .bind(most_of_one)
        .bind(without.iter().map(|org| org.uuid()).collect::<Vec<_>>())
        .fetch_all(&mut *tx)
        .await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (mut due, mut ids, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let id: Uuid = row.try_get("id")?;
            let check_requested_at: jiff_sqlx::Timestamp = row.try_get("check_requested_at")?;
            let checks = u32::try_from(row.try_get::<i32, _>("checks")?).unwrap_or_default();
            ids.push(id);
            next.push(
                next_dns_check(check_requested_at.to_jiff(), checks.saturating_add(1), now)
                    .map(sql),
            );
            let (org, domain) = (OrgId::from_uuid(row.try_get("org_id")?), DomainId::from_uuid(id));
            // A host that newer rules do not accept is skipped and does not delay the others.
            let host = row.try_get::<String, _>("host")?.parse();
            due.extend(host.ok().map(|host| DueDnsCheck { org, domain, host }));
        }
        sqlx::query(
            "update domains d set checks = d.checks + 1, check_started_at = $3, next_check_at = n.at
             from unnest($1::uuid[], $2::timestamptz[]) as n (id, at) where d.id = n.id",
        )
        .bind(&ids)
        .bind(&next)
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(due)
    }

    /// When the next check is due; `None` if none is scheduled.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn next_dns_check(&self) -> Result<Option<Timestamp>, Error> {
        let (at,): (Option<jiff_sqlx::Timestamp>,) = sqlx::query_as(
            "select min(next_check_at) from domains
             where next_check_at is not null and verified_at is null and deleted_at is null",
        )
        .fetch_one(self.pool())
        .await?;
        Ok(at.map(jiff_sqlx::Timestamp::to_jiff))
    }

    /// Records the result of a check that did not verify the domain.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn record_dns_check(
        &self,
        check: &DueDnsCheck,
        result: DnsResult,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        sqlx::query(
            "update domains set checked_at = $3, check_result = $4, check_detail = $5
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null",
        )
        .bind(check.domain.uuid())
        .bind(check.org.uuid())
        .bind(sql(now))
        .bind(result.into_str())
        .bind(why)
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Records that DNS verifies a host for this org while another org already has it.
    ///
    /// Emits an event for operators once; the org sees an indeterminate result. Returns whether the
    /// event was emitted.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn note_contested(&self, check: &DueDnsCheck, now: Timestamp) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        let before: Option<(Option<String>,)> = sqlx::query_as(
            "select check_detail from domains
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null for update",
        )
        .bind(check.domain.uuid())
        .bind(check.org.uuid())
        .fetch_optional(&mut *tx)
        .await?;
        let Some((before,)) = before else { return Ok(false) };
        sqlx::query(
            "update domains set checked_at = $2, check_result = $3, check_detail = $4 where id = $1 and org_id = $5",
        )
        .bind(check.domain.uuid())
        .bind(sql(now))
        .bind(DnsResult::Indeterminate.into_str())
        .bind(CONTESTED)
        .bind(check.org.uuid())
        .execute(&mut *tx)
        .await?;
        let is_new = before.as_deref() != Some(CONTESTED);
        if is_new {
            event::record(&mut tx, &[contested(check, now)]).await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }
}

/// The operators' event: names the host and the org that DNS verified it for.
fn contested(check: &DueDnsCheck, now: Timestamp) -> NewEvent {
    let fact = Fact::DomainContested(DomainContested {
        host: check.host.to_string(),
        claimant: check.org,
    });
    event::of_platform(fact, Source::System, now)
}
