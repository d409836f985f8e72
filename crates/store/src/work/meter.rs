//! The meter: computes usage records from transitions, in one transaction for a batch of marks.
//!
//! A mark says that something about an object changed. The fold is a function of all transitions of
//! the object, so a pass that is repeated, after a crash or a lost answer, writes nothing new.

pub(crate) mod input;
pub(crate) mod mark;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::cluster::Freshness;
use trueup_model::id::{ClusterId, IntervalId};
use trueup_model::usage::{Gap, GapPolicy, Source, UsageRecord};
use trueup_rules::usage::correction::{Correction, corrections};
use trueup_rules::usage::{Observed, Watermarks, fold};

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::transition::Observer;
use crate::usage::{self, watermarks};
use crate::work::lease::{Lease, fence};
use crate::{Error, Worker};
use input::{Inputs, Objects};

/// What a pass of the meter did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metered {
    /// How many marks it worked off.
    pub marks: usize,
    /// How many records it wrote.
    pub written: usize,
}

impl Worker {
    /// Records how far the watches of a cluster were heard, once everything they reported is
    /// recorded.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn record_watermarks(
        &self,
        observer: &Observer,
        heard: &Freshness,
    ) -> Result<(), Error> {
        let contacts: Vec<(&'static str, _)> = Source::WATCHED
            .into_iter()
            .filter_map(|source| {
                let at = heard.heard.get(&source.kind()?)?;
                Some((source.into_str(), sql(*at)))
            })
            .collect();
        let mut tx = self.begin().await?;
        fence(&mut tx, observer.lease).await?;
        sqlx::query(
            "insert into usage_watermarks (cluster_id, source, seen_at, observer, epoch)
             select $1, n.source, n.seen_at, $2, $3
             from unnest($4::text[], $5::timestamptz[]) as n (source, seen_at)
             on conflict (cluster_id, source) do update
                 set seen_at = excluded.seen_at, observer = excluded.observer, epoch = excluded.epoch
                 where usage_watermarks.seen_at < excluded.seen_at",
        )
        .bind(observer.lease.scope.uuid())
        .bind(&observer.name)
        .bind(observer.lease.epoch)
        .bind(contacts.iter().map(|(source, _)| *source).collect::<Vec<_>>())
        .bind(contacts.iter().map(|(_, at)| *at).collect::<Vec<_>>())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// How far the sources of a cluster were heard and recorded.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn watermarks(&self, cluster: ClusterId) -> Result<Watermarks, Error> {
        let all = watermarks(self.pool(), Some(cluster)).await?;
        Ok(all.into_values().next().unwrap_or_default())
    }

    /// Meters what at most `limit` marks of a cluster are about.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn meter(
        &self,
        lease: Lease,
        limit: i64,
        policy: GapPolicy,
        now: Timestamp,
    ) -> Result<Metered, Error> {
        let marks = mark::oldest(self.pool(), lease.scope, limit).await?;
        if marks.is_empty() {
            return Ok(Metered::default());
        }
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let objects = mark::objects(&mut tx, lease.scope, &marks).await?;
        let inputs = Inputs::read(&mut tx, lease.scope, Objects::Uids(&objects), None).await?;
        let (records, gaps) = compute(&inputs, policy);
        let stored = stored(&mut tx, lease.scope, &objects, true).await?;
        let corrections = corrections(&stored, &records);
        write(&mut tx, lease.scope, &corrections, now).await?;
        write_gaps(&mut tx, lease.scope, &objects, &gaps, now).await?;
        mark::done(&mut tx, lease.scope, &marks).await?;
        tx.commit().await?;
        Ok(Metered { marks: marks.len(), written: corrections.len() })
    }
}

/// The usage of the objects.
pub(crate) fn compute(inputs: &Inputs, policy: GapPolicy) -> (Vec<UsageRecord>, Vec<Gap>) {
    let (mut records, mut gaps) = (Vec::new(), Vec::new());
    for (owner, transitions) in &inputs.objects {
        let plans = owner.service.and_then(|service| inputs.plans.get(&service));
        let usage = fold(&Observed {
            owner: *owner,
            plans: plans.map(Vec::as_slice).unwrap_or_default(),
            transitions,
            nodes: &inputs.nodes,
            watermarks: &inputs.watermarks,
            policy,
        });
        records.extend(UsageRecord::of(&usage.intervals));
        gaps.extend(usage.gaps);
    }
    (records, gaps)
}

/// The records of these objects, locked for a writer.
pub(crate) async fn stored(
    tx: &mut Tx,
    cluster: ClusterId,
    objects: &[String],
    locked: bool,
) -> Result<Vec<(IntervalId, UsageRecord)>, Error> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "select {} from usage_intervals
         where cluster_id = $1 and object = any($2) and superseded_at is null
         order by object, source, starts_at {}",
        usage::COLUMNS,
        if locked { "for update" } else { "" },
    )))
    .bind(cluster.uuid())
    .bind(objects)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(usage::record).collect()
}

async fn write(
    tx: &mut Tx,
    cluster: ClusterId,
    corrections: &[Correction<IntervalId>],
    now: Timestamp,
) -> Result<(), Error> {
    let (mut superseded, mut updated, mut inserted) = (Vec::new(), Vec::new(), Vec::new());
    for correction in corrections {
        match correction {
            Correction::Supersede(id) => superseded.push(id.uuid()),
            Correction::Update(id, record) => {
                updated.push(usage::row(*id, cluster, record, now));
            }
            Correction::Insert(record) => {
                inserted.push(usage::row(new_id(now), cluster, record, now));
            }
        }
    }
    if !superseded.is_empty() {
        sqlx::query("update usage_intervals set superseded_at = $2 where id = any($1)")
            .bind(superseded)
            .bind(sql(now))
            .execute(&mut **tx)
            .await?;
    }
    if !updated.is_empty() {
        sqlx::query(
            "update usage_intervals u
             set plan = n.plan, quantities = n.quantities, ends_at = n.ends_at, open = n.open, growing = n.growing,
                 delivery = n.delivery, simulated = n.simulated, first_evidence = n.first_evidence,
                 last_evidence = n.last_evidence, late = n.late, skewed = n.skewed, recorded_at = n.recorded_at
             from jsonb_populate_recordset(null::usage_intervals, $1) n where u.id = n.id",
        )
        .bind(json(&Value::Array(updated)))
        .execute(&mut **tx)
        .await?;
    }
    if !inserted.is_empty() {
        sqlx::query(
            "insert into usage_intervals select * from jsonb_populate_recordset(null::usage_intervals, $1)",
        )
        .bind(json(&Value::Array(inserted)))
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

/// Writes the gaps of the objects. One that is no longer true, because the object was seen again, is
/// superseded.
async fn write_gaps(
    tx: &mut Tx,
    cluster: ClusterId,
    objects: &[String],
    gaps: &[Gap],
    now: Timestamp,
) -> Result<(), Error> {
    let rows: Vec<Value> = gaps
        .iter()
        .map(|gap| {
            serde_json::json!({
                "id": new_id::<trueup_model::id::noun::Interval>(now).uuid(),
                "org_id": gap.owner.org.uuid(),
                "service_id": gap.owner.service.map(trueup_model::id::ServiceId::uuid),
                "cluster_id": cluster.uuid(),
                "object": gap.object,
                "source": gap.source,
                "starts_at": gap.span.from,
                "ends_at": gap.span.until,
                "gap": gap,
                "recorded_at": now,
            })
        })
        .collect();
    let rows = json(&Value::Array(rows));
    sqlx::query(
        "update usage_gaps g set superseded_at = $4
         where g.cluster_id = $1 and g.object = any($2) and g.superseded_at is null
           and not exists (select from jsonb_populate_recordset(null::usage_gaps, $3) n
                           where n.object = g.object and n.source = g.source and n.gap = g.gap)",
    )
    .bind(cluster.uuid())
    .bind(objects)
    .bind(&rows)
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    if gaps.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into usage_gaps select n.* from jsonb_populate_recordset(null::usage_gaps, $1) n
         where not exists (select from usage_gaps g
                           where g.cluster_id = n.cluster_id and g.object = n.object and g.source = n.source
                             and g.superseded_at is null)",
    )
    .bind(&rows)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
