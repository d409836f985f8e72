//! Findings: what sweeps found, recorded permanently; and the results of requested removals.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::event::{Fact, FindingClosed, FindingKept, FindingOpened, Source};
use trueup_model::finding::{Finding, FindingClass, OrphanCandidate, SweepResult};
use trueup_model::id::{ClusterId, FindingId, ServiceId};
use trueup_model::key::ResourceKey;
use trueup_model::money::Money;
use trueup_model::org::PLATFORM;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::sold::{self, money};
use crate::work::lease::{Lease, fence};
use crate::{App, Error, Worker, event};

/// The most findings opened per sweep of a kind; later sweeps find the rest.
const AT_ONCE: usize = 200;

/// The columns of [`finding`].
pub(crate) const COLUMNS: &str =
    "id, cluster_id, class, kind, namespace, name, uid, resource_version, unit, found_at,
                       seen_at, closed_at, closed_why, remove_by, kept_why";

/// SQL: whether a unit that is not deleted records object `c` of cluster `$1`.
const RECORDED: &str = "exists (
    select from resources r
    where r.cluster_id = $1 and r.kind = c.kind and r.namespace = c.namespace and r.name = c.name
      and (exists (select from services s where r.subject_kind = 'service' and s.id = r.subject_id
                                            and s.deleted_at is null)
        or exists (select from projects p where r.subject_kind = 'project' and p.id = r.subject_id
                                            and p.deleted_at is null)))";

/// A requested removal.
#[derive(Debug, Clone)]
pub struct Removal {
    /// The finding to remove.
    pub found: Finding,
    /// Whether a unit records the object by now, so that it must be kept.
    pub recorded: bool,
}

pub(crate) fn finding(row: &PgRow) -> Result<Finding, Error> {
    let time =
        |name| row.try_get::<jiff_sqlx::Timestamp, _>(name).map(jiff_sqlx::Timestamp::to_jiff);
    let closed_at: Option<jiff_sqlx::Timestamp> = row.try_get("closed_at")?;
    let closed_why: Option<String> = row.try_get("closed_why")?;
    let kind: String = row.try_get("kind")?;
    Ok(Finding {
        id: FindingId::from_uuid(row.try_get("id")?),
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        class: read("class of a finding", row.try_get("class")?)?,
        key: ResourceKey::new(
            read("kind of a finding", kind)?,
            row.try_get("namespace")?,
            row.try_get("name")?,
        ),
        uid: row.try_get("uid")?,
        resource_version: row.try_get("resource_version")?,
        unit: row.try_get("unit")?,
        found_at: time("found_at")?,
        seen_at: time("seen_at")?,
        closed: closed_at.map(jiff_sqlx::Timestamp::to_jiff).zip(closed_why),
        remove_by: row.try_get("remove_by")?,
        kept_why: row.try_get("kept_why")?,
    })
}

impl App {
    /// Findings in the order in which they were found: only open ones, or all.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_findings(
        &self,
        closed: bool,
        after: Option<FindingId>,
        limit: i64,
    ) -> Result<Vec<Finding>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let statement = format!(
            "select {COLUMNS} from findings
             where ($1 or closed_at is null) and ($2::uuid is null or id > $2)
             order by id limit $3"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(closed)
            .bind(after.map(FindingId::uuid))
            .bind(limit)
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(finding).collect()
    }

    /// What these findings would be sold for per hour; without those whose price is not known.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_finding_prices(
        &self,
        findings: &[FindingId],
    ) -> Result<BTreeMap<FindingId, Money>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let rows: Vec<(Uuid, Option<i64>, Option<String>)> = sqlx::query_as(
            "select id, hourly_micros, currency from findings
             where id = any($1) and currency is not null",
        )
        .bind(findings.iter().map(|id| id.uuid()).collect::<Vec<_>>())
        .fetch_all(&mut *tx)
        .await?;
        let mut prices = BTreeMap::new();
        for (id, micros, currency) in rows {
            prices
                .extend(money(micros, currency)?.map(|hourly| (FindingId::from_uuid(id), hourly)));
        }
        Ok(prices)
    }
}

impl Worker {
    /// Records the result of a sweep: opens new findings and closes those that it no longer found.
    ///
    /// Returns how many were opened and closed.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn note_findings(
        &self,
        lease: Lease,
        swept: &SweepResult,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let candidates = unrecorded(&mut tx, lease, swept).await?;
        let mut facts = open(&mut tx, lease, &candidates, now).await?;
        facts.extend(close(&mut tx, lease, swept, &candidates, now).await?);
        record(&mut tx, &facts, now).await?;
        tx.commit().await?;
        Ok(facts.len())
    }

    /// The requested removals of a cluster that are not done yet.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn requested_removals(&self, cluster: ClusterId) -> Result<Vec<Removal>, Error> {
        let statement = format!(
            "select {COLUMNS}, {RECORDED} as recorded from findings c
             where cluster_id = $1 and remove_at is not null and closed_at is null and kept_why is null
             order by remove_at limit 20"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(cluster.uuid())
            .fetch_all(self.pool())
            .await?;
        let removal =
            |row| Ok(Removal { found: finding(row)?, recorded: row.try_get("recorded")? });
        rows.iter().map(removal).collect()
    }

    /// Records the result of a removal: the object is gone, or was kept and why.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn end_removal(
        &self,
        lease: Lease,
        of: &Finding,
        kept: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let key = of.key.clone();
        let by = of.remove_by.as_deref().unwrap_or("an operator");
        let (why, fact) = match kept {
            Some(why) => {
                (why.to_owned(), Fact::FindingKept(FindingKept { key, why: why.to_owned() }))
            }
            None => {
                let why = format!("removed by {by}");
                (why.clone(), Fact::FindingClosed(FindingClosed { key, why }))
            }
        };
        // The removal of a kept object can be requested again.
        let statement = match kept {
            Some(_) => {
                "update findings set kept_why = $2, remove_at = null, remove_by = null
                 where id = $1 and closed_at is null and $3::timestamptz is not null"
            }
            None => {
                "update findings set closed_why = $2, closed_at = $3
                 where id = $1 and closed_at is null"
            }
        };
        let ended = sqlx::query(statement)
            .bind(of.id.uuid())
            .bind(&why)
            .bind(sql(now))
            .execute(&mut *tx)
            .await?;
        if ended.rows_affected() == 1 {
            record(&mut tx, &[fact], now).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}

/// The candidates that no unit records, other than deleted units.
async fn unrecorded<'a>(
    tx: &mut Tx,
    lease: Lease,
    swept: &'a SweepResult,
) -> Result<Vec<&'a OrphanCandidate>, Error> {
    if swept.candidates.is_empty() {
        return Ok(Vec::new());
    }
    let column =
        |of: fn(&OrphanCandidate) -> &str| swept.candidates.iter().map(of).collect::<Vec<_>>();
    let statement = format!(
        "with candidates as (select $2::text as kind, s.* from unnest($3::text[], $4::text[])
                         with ordinality as s (namespace, name, at))
         select c.at from candidates c where not {RECORDED} order by c.at"
    );
    let rows: Vec<(i64,)> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(lease.scope.uuid())
        .bind(swept.kind.as_str())
        .bind(column(|candidate| &candidate.key.namespace))
        .bind(column(|candidate| &candidate.key.name))
        .fetch_all(&mut **tx)
        .await?;
    let index = |(at,): (i64,)| usize::try_from(at - 1).ok();
    Ok(rows.into_iter().filter_map(index).filter_map(|at| swept.candidates.get(at)).collect())
}

/// Opens new findings, and updates those that were found again.
async fn open(
    tx: &mut Tx,
    lease: Lease,
    candidates: &[&OrphanCandidate],
    now: Timestamp,
) -> Result<Vec<Fact>, Error> {
    let candidates = &candidates[..candidates.len().min(AT_ONCE)];
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let among: (i64,) =
        sqlx::query_as("select count(*) from resources where cluster_id = $1 and uid is not null")
            .bind(lease.scope.uuid())
            .fetch_one(&mut **tx)
            .await?;
    let prices = prices(tx, candidates).await?;
    let mut facts = Vec::new();
    for candidate in candidates {
        let hourly = prices.get(candidate.uid.as_str());
        let class = if candidate.proved { FindingClass::Orphan } else { FindingClass::Unproved };
        let id: FindingId = new_id(now);
        let (stored,): (Uuid,) = sqlx::query_as(
            "insert into findings (id, org_id, cluster_id, class, kind, namespace, name, uid, unit,
                                   resource_version, among, found_at, seen_at, hourly_micros, currency)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14)
             on conflict (cluster_id, uid) where closed_at is null do update
             set seen_at = excluded.seen_at, resource_version = excluded.resource_version,
                 class = excluded.class, among = excluded.among,
                 hourly_micros = excluded.hourly_micros, currency = excluded.currency
             returning id",
        )
        .bind(id.uuid())
        .bind(PLATFORM.uuid())
        .bind(lease.scope.uuid())
        .bind(class.into_str())
        .bind(candidate.key.kind.as_str())
        .bind(&candidate.key.namespace)
        .bind(&candidate.key.name)
        .bind(&candidate.uid)
        .bind(&candidate.unit)
        .bind(&candidate.resource_version)
        .bind(among.0)
        .bind(sql(now))
        .bind(hourly.map(|hourly| hourly.micros))
        .bind(hourly.map(|hourly| hourly.currency.to_string()))
        .fetch_one(&mut **tx)
        .await?;
        if stored == id.uuid() {
            facts.push(Fact::FindingOpened(FindingOpened {
                key: candidate.key.clone(),
                class,
                of: candidate.unit.clone(),
            }));
        }
    }
    Ok(facts)
}

/// What proved candidates would be sold for, by uid: as the service on their label was sold last.
async fn prices<'a>(
    tx: &mut Tx,
    candidates: &[&'a OrphanCandidate],
) -> Result<BTreeMap<&'a str, Money>, Error> {
    let labelled: Vec<(&OrphanCandidate, ServiceId)> = candidates
        .iter()
        .filter(|candidate| candidate.proved)
        .filter_map(|candidate| Some((*candidate, candidate.unit.as_ref()?.parse().ok()?)))
        .collect();
    let services: Vec<ServiceId> = labelled.iter().map(|(_, service)| *service).collect();
    let sold = sold::load(tx, &services).await?;
    let priced = |(candidate, service): (&'a OrphanCandidate, ServiceId)| {
        let hourly = sold.get(&service)?.finding_hourly(candidate.key.kind)?;
        Some((candidate.uid.as_str(), hourly))
    };
    Ok(labelled.into_iter().filter_map(priced).collect())
}

/// Closes open findings that the sweep no longer found.
async fn close(
    tx: &mut Tx,
    lease: Lease,
    swept: &SweepResult,
    candidates: &[&OrphanCandidate],
    now: Timestamp,
) -> Result<Vec<Fact>, Error> {
    let why = "the object is gone, or a unit records it now";
    let rows: Vec<(String, String)> = sqlx::query_as(
        "update findings set closed_at = $3, closed_why = $4
         where cluster_id = $1 and kind = $2 and closed_at is null and uid <> all($5) and org_id = $6
         returning namespace, name",
    )
    .bind(lease.scope.uuid())
    .bind(swept.kind.as_str())
    .bind(sql(now))
    .bind(why)
    .bind(candidates.iter().map(|candidate| candidate.uid.as_str()).collect::<Vec<_>>())
    .bind(PLATFORM.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let fact = |(namespace, name): (String, String)| {
        Fact::FindingClosed(FindingClosed {
            key: ResourceKey::new(swept.kind, &namespace, &name),
            why: why.to_owned(),
        })
    };
    Ok(rows.into_iter().map(fact).collect())
}

async fn record(tx: &mut Tx, facts: &[Fact], now: Timestamp) -> Result<(), Error> {
    let event = |fact: &Fact| event::of_platform(fact.clone(), Source::Reconciler, now);
    event::record(tx, &facts.iter().map(event).collect::<Vec<_>>()).await
}
