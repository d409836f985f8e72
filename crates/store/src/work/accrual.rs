//! Accrual: posts to the ledger what usage costs by now.
//!
//! An entry is the difference between what is posted and what is rated, so accrual may be repeated,
//! by any replica: the lock of the org's ledger orders them, and nothing is posted twice. Late usage
//! and corrections are differences on the period that they belong to.

use jiff::{SignedDuration, Timestamp};
use trueup_model::billing::BillingSettings;
use trueup_model::budget::AtLimit;
use trueup_model::id::{OrgId, ProjectId};
use trueup_rules::rate::posting::accrue;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::ledger::EntryKind;
use crate::{Error, Worker, balance, billing, budget, ledger, usage};

/// What an accrual posted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accrued {
    /// The number of new entries.
    pub entries: usize,
    /// Whose services are to be paused, because a budget or the balance is spent: those of projects, or
    /// of the whole org.
    pub paused: Vec<Option<ProjectId>>,
}

impl Worker {
    /// Orgs with usage or a subscription whose ledger was last brought up to date before a moment.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn orgs_to_accrue(&self, before: Timestamp) -> Result<Vec<OrgId>, Error> {
        let rows: Vec<(Uuid,)> = sqlx::query_as(
            "select o.id from orgs o left join ledger_heads h on h.org_id = o.id
             where (h.accrued_at is null or h.accrued_at < $1)
               and (exists (select from subscriptions s where s.org_id = o.id)
                    or exists (select from usage_intervals u where u.org_id = o.id
                                 and (u.growing or u.recorded_at > coalesce(h.accrued_at, 'epoch')
                                      or u.superseded_at > coalesce(h.accrued_at, 'epoch'))))
             order by h.accrued_at nulls first, o.id",
        )
        .bind(sql(before))
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|(id,)| OrgId::from_uuid(id)).collect())
    }

    /// Orgs with a billing period that ended before a moment and has no invoice, each with a moment
    /// in the newest such period.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn periods_to_close(
        &self,
        before: Timestamp,
    ) -> Result<Vec<(OrgId, Timestamp)>, Error> {
        let rows: Vec<(Uuid, jiff_sqlx::Timestamp)> = sqlx::query_as(
            "select e.org_id, max(e.period_from) from ledger_entries e
             where e.kind = 'usage' and e.period_until <= $1 and e.line ->> 'class' = 'charged'
               and not exists (select from invoices i
                               where i.org_id = e.org_id and i.period_from >= e.period_from and i.state <> 'void')
             group by e.org_id order by e.org_id",
        )
        .bind(sql(before))
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|(org, at)| (OrgId::from_uuid(org), at.to_jiff())).collect())
    }

    /// The running services of an org or of one project, by the names of their project and their own.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn running_services(
        &self,
        org: OrgId,
        project: Option<ProjectId>,
    ) -> Result<Vec<(String, String)>, Error> {
        let rows = sqlx::query_as(
            "select p.name, s.name from services s join projects p on p.id = s.project_id
             where s.org_id = $1 and s.desired = 'active' and ($2::uuid is null or s.project_id = $2)
             order by s.id",
        )
        .bind(org.uuid())
        .bind(project.map(ProjectId::uuid))
        .fetch_all(self.pool())
        .await?;
        Ok(rows)
    }

    /// Posts what the usage of an org costs in this billing period and in the one before.
    ///
    /// # Errors
    /// The database cannot be reached, or a price cannot be computed with.
    pub async fn accrue(
        &self,
        org: OrgId,
        settings: &BillingSettings,
        now: Timestamp,
    ) -> Result<Accrued, Error> {
        let mut tx = self.begin().await?;
        let accrued = post(&mut tx, org, settings, now).await?;
        tx.commit().await?;
        Ok(accrued)
    }
}

/// Posts the differences of this period and of the one before.
pub(crate) async fn post(
    tx: &mut Tx,
    org: OrgId,
    settings: &BillingSettings,
    now: Timestamp,
) -> Result<Accrued, Error> {
    let mut seq = ledger::lock(tx, org).await?;
    let account = billing::account(tx, org, settings.currency).await?;
    let heard = usage::watermarks(&mut **tx, None).await?;
    let current = billing::inputs(tx, org, account.clone(), now, &heard, None).await?;
    let spending = current.period;
    // The last moment before this period.
    let former = current.period.from.checked_sub(SignedDuration::from_micros(1)).unwrap_or(now);
    let former = billing::inputs(tx, org, account, former, &heard, None).await?;
    let mut accrued = Accrued::default();
    for inputs in [former, current] {
        let rated = inputs.rate(settings.charge_simulated)?;
        let posted = ledger::posted(tx, org, inputs.period).await?;
        let entries = accrue(org, inputs.period, &posted, &rated.lines);
        seq = ledger::append(tx, org, (EntryKind::Usage, None), seq, &entries, now).await?;
        accrued.entries = accrued.entries.saturating_add(entries.len());
    }
    let at_zero = balance::note(tx, org, now).await?;
    accrued.paused = budget::note_spending(tx, org, spending, now).await?;
    if at_zero == Some(AtLimit::Pause) {
        accrued.paused.push(None);
    }
    sqlx::query("update ledger_heads set accrued_at = $2, heard = $3 where org_id = $1")
        .bind(org.uuid())
        .bind(sql(now))
        .bind(json(&heard))
        .execute(&mut **tx)
        .await?;
    Ok(accrued)
}
