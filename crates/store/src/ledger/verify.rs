//! Verification: everything is computed again from transitions and compared with what is stored.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use trueup_model::billing::BillingSettings;
use trueup_model::id::{ClusterId, IntervalId, OrgId};
use trueup_model::org::PLATFORM;
use trueup_model::transition::Transition;
use trueup_model::usage::{GapPolicy, MICROS, Owner, UsageRecord};
use trueup_rules::rate::posting::accrue;
use trueup_rules::usage::correction::{Correction, corrections};
use uuid::Uuid;

use crate::capacity::{CapacityDay, days_of};
use crate::db::clock::sql;
use crate::db::pool::{Tx, enter};
use crate::work::meter::input::{Inputs, Objects};
use crate::work::meter::{compute, stored};
use crate::{App, Error, billing, ledger, subscription};

/// What changed more recently than this may not be metered yet.
const SETTLING: SignedDuration = SignedDuration::from_secs(60);
/// How many days of each cluster's capacity are checked.
const CAPACITY_DAYS: i32 = 62;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The number of entries in the ledger.
    pub entries: i64,
    /// How many objects were metered again.
    pub objects: usize,
    /// How many lines were rated again.
    pub lines: usize,
    /// Lines that changed since usage was last posted.
    pub pending: usize,
    /// The first difference.
    pub difference: Option<String>,
}

impl App {
    /// Computes the usage and the costs of an org again, and compares them with what is stored.
    ///
    /// # Errors
    /// The database cannot be reached, or a price cannot be computed with.
    pub async fn verify_ledger(
        &self,
        org: OrgId,
        settings: &BillingSettings,
        now: Timestamp,
    ) -> Result<Verification, Error> {
        let mut tx = self.begin(org).await?;
        let mut found = Verification::default();
        found.difference = integrity(&mut tx, org, &mut found.entries).await?;
        for cluster in clusters(&mut tx, org).await? {
            if found.difference.is_none() {
                found.difference =
                    usage(&mut tx, (org, cluster), settings.gap_policy, now, &mut found).await?;
            }
        }
        if found.difference.is_none() {
            found.difference = amounts(&mut tx, org, settings, &mut found).await?;
        }
        if found.difference.is_none() && org == PLATFORM {
            found.difference = capacity(&mut tx).await?;
        }
        Ok(found)
    }
}

/// On no day was more used than the nodes of a cluster had.
async fn capacity(tx: &mut Tx) -> Result<Option<String>, Error> {
    let days = days_of(tx, None, CAPACITY_DAYS).await?;
    let words = |day: CapacityDay| {
        let (meter, account) = day.accounts.iter().find(|(_, it)| it.unexplained > 0)?;
        let (cluster, units) = (day.cluster, account.unexplained.div_euclid(MICROS));
        let (day, unit) = (&day.day, meter.unit());
        Some(format!("on {day}, {units} {unit}s more were used in {cluster} than its nodes had"))
    };
    Ok(days.into_iter().find_map(words))
}

/// The sequence has no holes, and every entry sums to zero.
async fn integrity(tx: &mut Tx, org: OrgId, entries: &mut i64) -> Result<Option<String>, Error> {
    let (count, last): (i64, i64) = sqlx::query_as(
        "select count(*), coalesce(max(seq), 0) from ledger_entries where org_id = $1",
    )
    .bind(org.uuid())
    .fetch_one(&mut **tx)
    .await?;
    *entries = count;
    if count != last {
        return Ok(Some(format!("the ledger has {count} entries, but the last one is {last}")));
    }
    let unbalanced: Option<(i64, i64)> = sqlx::query_as(
        "select e.seq, coalesce(sum(p.micros), 1)::bigint
         from ledger_entries e left join ledger_postings p on p.org_id = e.org_id and p.seq = e.seq
         where e.org_id = $1 group by e.seq having coalesce(sum(p.micros), 1) <> 0
         order by e.seq limit 1",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    if let Some((seq, sum)) = unbalanced {
        return Ok(Some(format!("entry {seq} sums to {sum} millionths, not to zero")));
    }
    overlap(tx, org).await
}

/// No moment is in two billing periods: its usage would be charged in both.
async fn overlap(tx: &mut Tx, org: OrgId) -> Result<Option<String>, Error> {
    let found: Option<(jiff_sqlx::Timestamp,)> = sqlx::query_as(
        "select period_from from (
             select period_from, lag(period_until) over (order by period_from, period_until) as before
             from (select distinct period_from, period_until from ledger_entries
                   where org_id = $1 and kind = 'usage') periods) neighbours
         where period_from < before order by period_from limit 1",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    let words = |(from,): (jiff_sqlx::Timestamp,)| {
        format!("the billing period from {} overlaps with the one before", from.to_jiff())
    };
    Ok(found.map(words))
}

async fn clusters(tx: &mut Tx, org: OrgId) -> Result<Vec<ClusterId>, Error> {
    let rows: Vec<(Uuid,)> = sqlx::query_as(
        "select cluster_id from transitions where org_id = $1
         union select cluster_id from usage_intervals where org_id = $1 order by cluster_id",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(id,)| ClusterId::from_uuid(id)).collect())
}

/// The stored usage is what the transitions show.
async fn usage(
    tx: &mut Tx,
    (org, cluster): (OrgId, ClusterId),
    policy: GapPolicy,
    now: Timestamp,
    found: &mut Verification,
) -> Result<Option<String>, Error> {
    // Nodes belong to the platform.
    enter(tx, PLATFORM).await?;
    let nodes = Inputs::nodes(tx, cluster).await?;
    enter(tx, org).await?;
    let inputs = Inputs::read(tx, cluster, Objects::Org(org), Some(nodes)).await?;
    let mut uids: Vec<String> = inputs.objects.iter().filter_map(uid).collect();
    uids.extend(stored_without_transitions(tx, (org, cluster), &uids).await?);
    found.objects = found.objects.saturating_add(uids.len());
    let (computed, _) = compute(&inputs, policy);
    let stored = stored(tx, cluster, &uids, false).await?;
    let settled = now.checked_sub(SETTLING).unwrap_or(now);
    let recent: BTreeSet<&str> = inputs
        .objects
        .iter()
        .filter(|(_, changes)| changes.iter().any(|change| change.seen_at > settled))
        .filter_map(|(_, changes)| changes.first().map(|change| change.uid.as_str()))
        .collect();
    let first = corrections(&stored, &computed).into_iter().find_map(|write| {
        let record = match &write {
            Correction::Insert(record) | Correction::Update(_, record) => record,
            Correction::Supersede(id) => &stored.iter().find(|(one, _)| one == id)?.1,
        };
        (!recent.contains(record.object.as_str())).then(|| differs(&write, record))
    });
    Ok(first)
}

/// Objects with stored usage that no transition shows.
async fn stored_without_transitions(
    tx: &mut Tx,
    (org, cluster): (OrgId, ClusterId),
    known: &[String],
) -> Result<Vec<String>, Error> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "select distinct object from usage_intervals
         where org_id = $1 and cluster_id = $2 and superseded_at is null and object <> all($3)
         order by object",
    )
    .bind(org.uuid())
    .bind(cluster.uuid())
    .bind(known)
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(object,)| object).collect())
}

fn uid((_, changes): &(Owner, Vec<Transition>)) -> Option<String> {
    changes.first().map(|change| change.uid.clone())
}

fn differs(write: &Correction<IntervalId>, record: &UsageRecord) -> String {
    let (object, from) = (&record.object, record.span.from);
    match write {
        Correction::Insert(_) => format!("usage of {object} from {from} is not stored"),
        Correction::Update(..) => format!("usage of {object} from {from} is stored differently"),
        Correction::Supersede(_) => {
            format!("usage of {object} from {from} is stored, and no transition shows it")
        }
    }
}

/// The ledger says what the stored usage costs, as far as sources were heard when it was posted.
async fn amounts(
    tx: &mut Tx,
    org: OrgId,
    settings: &BillingSettings,
    found: &mut Verification,
) -> Result<Option<String>, Error> {
    let Some((accrued_at, heard)) = ledger::last_accrual(tx, org).await? else { return Ok(None) };
    let account = billing::account(tx, org, settings.currency).await?;
    let is_settled = !changed_since(tx, org, accrued_at).await?
        && !subscription::changed_since(tx, org, accrued_at).await?;
    let mut around = Some(accrued_at);
    for _ in 0..2 {
        let Some(at) = around else { break };
        let inputs = billing::inputs(tx, org, account.clone(), at, &heard, None).await?;
        around = inputs.period.from.checked_sub(SignedDuration::from_micros(1)).ok();
        let lines = inputs.rate(settings.charge_simulated)?.lines;
        found.lines = found.lines.saturating_add(lines.len());
        let posted = ledger::posted(tx, org, inputs.period).await?;
        let differences = accrue(org, inputs.period, &posted, &lines);
        let first = differences.first().filter(|_| is_settled).and_then(|it| it.line.as_ref());
        if let Some(line) = first {
            let (item, period) = (&line.item, inputs.period.from);
            return Ok(Some(format!(
                "{item} in the period from {period} costs something else than what is posted"
            )));
        }
        found.pending = found.pending.saturating_add(differences.len());
    }
    Ok(None)
}

/// Whether usage was recorded or corrected since it was last posted.
async fn changed_since(tx: &mut Tx, org: OrgId, accrued_at: Timestamp) -> Result<bool, Error> {
    let (changed,): (bool,) = sqlx::query_as(
        "select exists (select from usage_intervals where org_id = $1
                          and (recorded_at > $2 or superseded_at > $2))",
    )
    .bind(org.uuid())
    .bind(sql(accrued_at))
    .fetch_one(&mut **tx)
    .await?;
    Ok(changed)
}
