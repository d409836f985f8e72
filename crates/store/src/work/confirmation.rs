//! Confirmations of people by their providers: who is due, and what a failed one leaves behind.
//!
//! Claiming schedules the next confirmation in the same transaction: a crash leaves no claim behind, and no two
//! processes use one refresh token at the same time.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;
use trueup_model::domain::{DnsResult, Host};
use trueup_model::event::{Fact, ProviderUnavailable, Source};
use trueup_model::id::{DomainId, IdentityId, OrgId, ProviderId, UserId};
use trueup_model::provider::{CONFIRM_EVERY, CredentialKind, DueConfirmation};
use trueup_model::subject::Subject;
use trueup_rules::admit::domain::next_dns_check;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::time;
use crate::provider::{CONNECTION, connection, credential};
use crate::{DueDnsCheck, Error, Worker, event};

impl Worker {
    /// Claims due confirmations, at most so many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn claim_confirmations(
        &self,
        most: i64,
        now: Timestamp,
    ) -> Result<Vec<DueConfirmation>, Error> {
        let mut tx = self.begin().await?;
        let statement = format!(
            "select i.id, i.user_id, i.subject, i.nonce as token_nonce, i.sealed as token_sealed, {CONNECTION}
             from identities i
             join identity_providers p on p.id = i.provider_id and p.deleted_at is null and p.enabled
             left join org_keys k on k.org_id = i.org_id
             where i.next_check_at <= $1 and i.ended_at is null
             order by i.next_check_at limit $2 for update of i skip locked"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(sql(now))
            .bind(most)
            .fetch_all(&mut *tx)
            .await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in &rows {
            let connection = connection(row)?;
            let identity = IdentityId::from_uuid(row.try_get("id")?);
            let kind = CredentialKind::RefreshToken(identity);
            due.push(DueConfirmation {
                identity,
                user: UserId::from_uuid(row.try_get("user_id")?),
                subject: row.try_get("subject")?,
                refresh_token: credential(row, connection.org, kind, "token")?,
                connection,
            });
        }
        let ids: Vec<Uuid> = due.iter().map(|one| one.identity.uuid()).collect();
        sqlx::query("update identities set next_check_at = $2 where id = any($1)")
            .bind(&ids)
            .bind(sql(now.checked_add(CONFIRM_EVERY).unwrap_or(Timestamp::MAX)))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(due)
    }

    /// When the next confirmation or DNS check of a provider is due.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn next_confirmation(&self) -> Result<Option<Timestamp>, Error> {
        let row = sqlx::query(
            "select least(
                 (select min(i.next_check_at) from identities i
                  join identity_providers p on p.id = i.provider_id and p.deleted_at is null and p.enabled
                  where i.ended_at is null and i.next_check_at is not null),
                 (select min(next_check_at) from provider_domains
                  where next_check_at is not null and verified_at is null and deleted_at is null)
             ) as at",
        )
        .fetch_one(self.pool())
        .await?;
        crate::db::row::maybe_time(&row, "at")
    }

    /// Records that a provider could not be asked; returns whether it could before. It is asked again after
    /// `again`.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn note_provider_failure(
        &self,
        due: &DueConfirmation,
        why: &str,
        again: SignedDuration,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let (provider, org) = (due.connection.provider, due.connection.org);
        let mut tx = self.begin().await?;
        let (failed_before,): (bool,) = sqlx::query_as(
            "with before as (
                 select id, coalesce(failed_at > coalesce(confirmed_at, '-infinity'), false) as failed
                 from identity_providers where id = $1 for update)
             update identity_providers p set failed_at = $2, failure = $3 from before where p.id = before.id
             returning before.failed",
        )
        .bind(provider.uuid())
        .bind(sql(now))
        .bind(why)
        .fetch_one(&mut *tx)
        .await?;
        sqlx::query("update identities set failed_at = $2, next_check_at = $3 where id = $1")
            .bind(due.identity.uuid())
            .bind(sql(now))
            .bind(sql(now.checked_add(again).unwrap_or(Timestamp::MAX)))
            .execute(&mut *tx)
            .await?;
        if !failed_before {
            let fact = Fact::ProviderUnavailable(unavailable(provider, why));
            let subject = Subject::Org(org);
            let event = event::about(org, subject, 0, fact, Source::System, now);
            event::record(&mut tx, &[event]).await?;
        }
        tx.commit().await?;
        Ok(!failed_before)
    }

    /// Claims due DNS checks of domains of providers, at most so many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn claim_provider_domains(
        &self,
        most: i64,
        now: Timestamp,
    ) -> Result<Vec<DueDnsCheck>, Error> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "select id, org_id, host, checks, check_requested_at from provider_domains
             where next_check_at <= $1 and verified_at is null and deleted_at is null
             order by next_check_at limit $2 for update skip locked",
        )
        .bind(sql(now))
        .bind(most)
        .fetch_all(&mut *tx)
        .await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in &rows {
            let (id, host): (Uuid, String) = (row.try_get("id")?, row.try_get("host")?);
            let checks = u32::try_from(row.try_get::<i32, _>("checks")?).unwrap_or_default();
            let next =
                next_dns_check(time(row, "check_requested_at")?, checks.saturating_add(1), now);
            sqlx::query(
                "update provider_domains set checks = checks + 1, next_check_at = $2 where id = $1",
            )
            .bind(id)
            .bind(next.map(sql))
            .execute(&mut *tx)
            .await?;
            // A host that newer rules do not accept is skipped and does not delay the others.
            let (org, domain) = (OrgId::from_uuid(row.try_get("org_id")?), DomainId::from_uuid(id));
            due.extend(host.parse::<Host>().ok().map(|host| DueDnsCheck { org, domain, host }));
        }
        tx.commit().await?;
        Ok(due)
    }

    /// Records the result of a check that did not prove a domain of a provider.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn record_provider_dns_check(
        &self,
        check: &DueDnsCheck,
        result: DnsResult,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        sqlx::query(
            "update provider_domains set checked_at = $3, check_result = $4, check_detail = $5
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
}

fn unavailable(provider: ProviderId, why: &str) -> ProviderUnavailable {
    ProviderUnavailable { provider, why: why.to_owned() }
}
