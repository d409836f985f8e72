//! Proposals that no person decides about: those that a policy adopts, and those that expire.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::drift::{DivergenceRecord, DriftPolicy};
use trueup_model::event::{DriftEnded, DriftRejected, Fact, Source};
use trueup_model::id::{ClusterId, DivergenceId, OrgId};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read_json};
use crate::drift::{COLUMNS, POLICY, record};
use crate::work::lease::{Lease, fence};
use crate::work::order::policies;
use crate::work::wake;
use crate::{Error, Worker, event};

/// The most proposals that expire in one transaction.
const AT_ONCE: i64 = 200;

/// A proposal whose value is kept until it is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingProposal {
    /// The divergence.
    pub id: DivergenceId,
    /// The tenant.
    pub org: OrgId,
    /// The generation that it was seen with, which is the current one.
    pub generation: i64,
    /// The policies of its service, in order: they say whether it needs approval.
    pub policies: Vec<DriftPolicy>,
}

impl Worker {
    /// A page of the proposals of a cluster whose value is kept, in the order in which they were
    /// first seen. One whose service changed since is left out: the next report says what stands.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn waiting_proposals(
        &self,
        cluster: ClusterId,
        after: Option<DivergenceId>,
        limit: i64,
    ) -> Result<Vec<WaitingProposal>, Error> {
        let rows = sqlx::query(
            "select d.id, d.org_id, d.generation, s.drift, p.drift as project_drift,
                    t.body -> 'drift' as template_drift
             from divergences d
             join services s on d.subject_kind = 'service' and s.id = d.subject_id
             join projects p on p.id = s.project_id
             left join templates t on t.name = s.template_name and t.version = s.template_version
             where d.cluster_id = $1 and d.state = 'proposed' and d.gone_at is null
               and s.generation = d.generation and s.desired <> 'deleted'
               and ($2::uuid is null or d.id > $2)
             order by d.id limit $3",
        )
        .bind(cluster.uuid())
        .bind(after.map(DivergenceId::uuid))
        .bind(limit)
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(waiting).collect()
    }

    /// Ends the proposals of a cluster without a decision in time, and wakes the units whose
    /// value was kept until now; returns how many ended.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn expire_proposals(&self, lease: Lease, now: Timestamp) -> Result<usize, Error> {
        if !self.has_expired_proposals(lease.scope, now).await? {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let statement = format!(
            "update divergences d set state = 'expired', ended_at = $2
             where d.id in (select id from divergences
                            where cluster_id = $1 and state = 'proposed' and expires_at <= $2
                            order by id limit $3 for update)
             returning {COLUMNS}"
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(lease.scope.uuid())
            .bind(sql(now))
            .bind(AT_ONCE)
            .fetch_all(&mut *tx)
            .await?;
        for row in &rows {
            let found = record(row)?;
            let fact = Fact::DriftEnded(DriftEnded {
                key: found.divergence.key.clone(),
                field: found.divergence.field.clone(),
                class: found.divergence.class,
            });
            finish(&mut tx, row, &found, fact, now).await?;
        }
        tx.commit().await?;
        Ok(rows.len())
    }

    /// Mostly there are none, and then nothing is written: not even the lock of the lease.
    async fn has_expired_proposals(
        &self,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let found = sqlx::query_scalar(
            "select exists (select from divergences
                            where cluster_id = $1 and state = 'proposed' and expires_at <= $2)",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .fetch_one(self.pool())
        .await?;
        Ok(found)
    }

    /// Rejects a proposal that its policy adopts but the door refuses, and wakes its unit; returns
    /// whether it was still waiting.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn reject_proposal(
        &self,
        lease: Lease,
        of: &WaitingProposal,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let statement = format!(
            "update divergences d set state = 'rejected', ended_at = $4, decided_by = $5, decided_why = $6
             where d.id = $1 and d.org_id = $2 and d.cluster_id = $3 and d.state = 'proposed'
             returning {COLUMNS}"
        );
        let row = sqlx::query(AssertSqlSafe(statement))
            .bind(of.id.uuid())
            .bind(of.org.uuid())
            .bind(lease.scope.uuid())
            .bind(sql(now))
            .bind(POLICY)
            .bind(why)
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else { return Ok(false) };
        let found = record(&row)?;
        let fact = Fact::DriftRejected(DriftRejected {
            divergence: found.id,
            key: found.divergence.key.clone(),
            field: found.divergence.field.clone(),
            principal: POLICY.to_owned(),
        });
        finish(&mut tx, &row, &found, fact, now).await?;
        tx.commit().await?;
        Ok(true)
    }
}

fn waiting(row: &PgRow) -> Result<WaitingProposal, Error> {
    let own: DriftPolicy = read_json("drift policy", row.try_get("drift")?)?;
    Ok(WaitingProposal {
        id: DivergenceId::from_uuid(row.try_get::<Uuid, _>("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        generation: row.try_get("generation")?,
        policies: policies(own, row)?,
    })
}

/// Records that a proposal ended, and wakes its unit if the value is still there.
async fn finish(
    tx: &mut Tx,
    row: &PgRow,
    of: &DivergenceRecord,
    fact: Fact,
    now: Timestamp,
) -> Result<(), Error> {
    let (unit, generation) = (of.unit, row.try_get("generation")?);
    let event = event::about(of.org, unit.into(), generation, fact, Source::Reconciler, now);
    event::record(tx, &[event]).await?;
    if maybe_time(row, "gone_at")?.is_none() {
        let again = wake::Request::repair(unit, of.org, of.cluster);
        wake::request(tx, &again, now).await?;
    }
    Ok(())
}
