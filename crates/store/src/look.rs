//! Looks into DNS for the proofs of hosts: which are due, and what they saw.
//!
//! Taking a look writes down when the next one is due, so nothing is left behind by a process that ends
//! in the middle of it, and no two processes take the same one.

use jiff::Timestamp;
use sqlx::Row;
use trueup_model::domain::{Host, Saw};
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{DomainId, OrgId};
use trueup_rules::domain::next_look;
use uuid::Uuid;

use crate::clock::sql;
use crate::{Error, Worker, event};

/// What is told of a proof that could not be taken. It says nothing about why: that another org has the
/// host is for operators alone.
const UNTAKEN: &str = "it could not be decided; ask the operator";

/// A domain whose proof is to be looked for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueLook {
    /// Whose it is.
    pub org: OrgId,
    /// Which, and the text that proves it.
    pub domain: DomainId,
    /// Its host.
    pub host: Host,
}

impl Worker {
    /// Takes looks that are due: at most so many, at most so many of one org, and none of these orgs.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn claim_looks(
        &self,
        most: i64,
        most_of_one: i64,
        without: &[OrgId],
        now: Timestamp,
    ) -> Result<Vec<DueLook>, Error> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "select id, org_id, host, looks, coalesce(asked_at, created_at) as asked_at from domains
             where id in (select id from (
                     select id, look_at, row_number() over (partition by org_id order by look_at) as place
                     from domains where look_at <= $1 and verified_at is null and deleted_at is null
                       and org_id <> all($4)) due
                 where place <= $3 order by look_at limit $2)
               and look_at <= $1 and verified_at is null and deleted_at is null
             order by look_at for update skip locked",
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
            let asked_at: jiff_sqlx::Timestamp = row.try_get("asked_at")?;
            let looks = u32::try_from(row.try_get::<i32, _>("looks")?).unwrap_or_default();
            ids.push(id);
            next.push(next_look(asked_at.to_jiff(), looks.saturating_add(1), now).map(sql));
            let (org, domain) = (OrgId::from_uuid(row.try_get("org_id")?), DomainId::from_uuid(id));
            // What is no host any more, by newer rules, is not asked for; others do not wait for it.
            let host = row.try_get::<String, _>("host")?.parse();
            due.extend(host.ok().map(|host| DueLook { org, domain, host }));
        }
        sqlx::query(
            "update domains d set looks = d.looks + 1, tried_at = $3, look_at = n.at
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
    pub async fn next_look(&self) -> Result<Option<Timestamp>, Error> {
        let (at,): (Option<jiff_sqlx::Timestamp>,) = sqlx::query_as(
            "select min(look_at) from domains
             where look_at is not null and verified_at is null and deleted_at is null",
        )
        .fetch_one(self.pool())
        .await?;
        Ok(at.map(jiff_sqlx::Timestamp::to_jiff))
    }

    /// Writes down what a look saw that did not prove anything.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn note_look(
        &self,
        look: &DueLook,
        saw: Saw,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        sqlx::query(
            "update domains set looked_at = $3, saw = $4, saw_why = $5
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null",
        )
        .bind(look.domain.uuid())
        .bind(look.org.uuid())
        .bind(sql(now))
        .bind(saw.as_str())
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
    pub async fn note_contested(&self, look: &DueLook, now: Timestamp) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        let before: Option<(Option<String>,)> = sqlx::query_as(
            "select saw_why from domains
             where id = $1 and org_id = $2 and verified_at is null and deleted_at is null for update",
        )
        .bind(look.domain.uuid())
        .bind(look.org.uuid())
        .fetch_optional(&mut *tx)
        .await?;
        let Some((before,)) = before else { return Ok(false) };
        sqlx::query(
            "update domains set looked_at = $2, saw = $3, saw_why = $4 where id = $1 and org_id = $5",
        )
        .bind(look.domain.uuid())
        .bind(sql(now))
        .bind(Saw::Doubt.as_str())
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
fn contested(look: &DueLook, now: Timestamp) -> NewEvent {
    let fact = Fact::DomainContested { host: look.host.to_string(), claimant: look.org };
    event::of_platform(fact, Source::System, now)
}
