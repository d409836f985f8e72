//! Looks into DNS for the proofs of hosts: which are due, and what they saw.
//!
//! Taking a look writes down when the next one is due, so nothing is left behind by a process that ends
//! in the middle of it, and no two processes take the same one.

use jiff::Timestamp;
use sqlx::Row;
use trueup_model::domain::{DnsResult, Host};
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{DomainId, OrgId};
use trueup_rules::admit::domain::next_dns_check;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::{Error, Worker, event};

/// What is told of a proof that could not be taken. It says nothing about why: that another org has the
/// host is for operators alone.
const UNTAKEN: &str = "it could not be decided; ask the operator";

/// A domain whose proof is to be looked for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDnsCheck {
    /// Whose it is.
    pub org: OrgId,
    /// Which, and the text that proves it.
    pub domain: DomainId,
    /// Its host.
    pub host: Host,
}

impl Worker {
    /// Takes checks that are due: at most so many, at most so many of one org, and none of these orgs.
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
            // What is no host any more, by newer rules, is not asked for; others do not wait for it.
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

    /// When the next look is due; nothing where none is.
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

    /// Writes down what a look saw that did not prove anything.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn record_dns_check(
        &self,
        look: &DueDnsCheck,
        result: DnsResult,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        sqlx::query(
            "update domains set checked_at = $3, check_result = $4, check_detail = $5
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null",
        )
        .bind(look.domain.uuid())
        .bind(look.org.uuid())
        .bind(sql(now))
        .bind(result.as_str())
        .bind(why)
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Writes down that DNS proves a host to be an org's while another org has it. Operators hear of it,
    /// once; the org hears that it is in doubt. Answers whether they did.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn note_contested(&self, look: &DueDnsCheck, now: Timestamp) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        let before: Option<(Option<String>,)> = sqlx::query_as(
            "select check_detail from domains
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null for update",
        )
        .bind(look.domain.uuid())
        .bind(look.org.uuid())
        .fetch_optional(&mut *tx)
        .await?;
        let Some((before,)) = before else { return Ok(false) };
        sqlx::query(
            "update domains set checked_at = $2, check_result = $3, check_detail = $4 where id = $1 and org_id = $5",
        )
        .bind(look.domain.uuid())
        .bind(sql(now))
        .bind(DnsResult::Indeterminate.as_str())
        .bind(UNTAKEN)
        .bind(look.org.uuid())
        .execute(&mut *tx)
        .await?;
        let is_new = before.as_deref() != Some(UNTAKEN);
        if is_new {
            event::record(&mut tx, &[contested(look, now)]).await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }
}

/// A fact for operators: it names both the host and who proved it.
fn contested(look: &DueDnsCheck, now: Timestamp) -> NewEvent {
    let fact = Fact::DomainContested { host: look.host.to_string(), claimant: look.org };
    event::of_platform(fact, Source::System, now)
}
