//! Raw transitions: recording observed changes of pods, disks and nodes, and reading them.
//!
//! The last known state of each uid is stored beside the log. Updates are compared with it in the
//! transaction that writes, fenced by the lease: a repeated update, from a second observer, after a
//! restart or after a lost answer, adds no row.

mod series;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::id::{OrgId, ServiceId, TransitionId};
use trueup_model::key::Kind;
use trueup_model::transition::{ObjectUpdate, Transition};

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{read, read_json};
use crate::service::find;
use crate::work::lease::{Lease, fence};
use crate::work::meter::mark::{self, Changed};
use crate::{App, Error, Worker};
use series::{Batch, Gap, New};

/// The process that watches a cluster.
#[derive(Debug, Clone)]
pub struct Observer {
    /// Its lease.
    pub lease: Lease,
    /// Its name.
    pub name: String,
    /// When the last watch event of each kind arrived before this observer started.
    pub before: Freshness,
}

impl Worker {
    /// Records updates in their order; returns how many transitions they caused.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn note_transitions(
        &self,
        observer: &Observer,
        updates: &[ObjectUpdate],
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.make_partitions(updates, now).await?;
        let mut tx = self.begin().await?;
        fence(&mut tx, observer.lease).await?;
        let heads = series::heads(&mut tx, observer.lease.scope, updates).await?;
        let owners = series::owners(&mut tx, observer.lease.scope, updates).await?;
        let mut batch = Batch::new(heads, owners);
        for update in updates {
            batch.add(update, &observer.before);
        }
        // One sequence of ids for both, so that they are read in the order of the updates.
        let ids = ids(batch.len(), now);
        let (transitions, gaps) = (batch.transitions, batch.gaps);
        append(&mut tx, observer, &transitions, &ids).await?;
        append_gaps(&mut tx, observer, &gaps, &ids).await?;
        series::store(&mut tx, observer.lease.scope, &batch.heads, &batch.changed).await?;
        let metered: Vec<Changed<'_>> = transitions.iter().filter_map(metered).collect();
        mark::set(&mut tx, observer.lease.scope, &metered).await?;
        tx.commit().await?;
        Ok(transitions.len())
    }

    /// Creates the partitions for these updates and for the coming months.
    async fn make_partitions(&self, updates: &[ObjectUpdate], now: Timestamp) -> Result<(), Error> {
        let seen = updates.iter().map(|update| match update {
            ObjectUpdate::Present { seen_at, .. }
            | ObjectUpdate::Gone { seen_at, .. }
            | ObjectUpdate::Listed { seen_at, .. } => *seen_at,
        });
        sqlx::query("select make_transition_partitions($1, $2)")
            .bind(sql(seen.min().unwrap_or(now).min(now)))
            .bind(sql(now))
            .execute(self.pool())
            .await?;
        Ok(())
    }
}

/// What a transition changes for the meter; a volume is metered through its claim.
fn metered(new: &New) -> Option<Changed<'_>> {
    let at = new.at.unwrap_or(new.seen_at).min(new.after.unwrap_or(new.seen_at));
    match new.kind {
        Kind::Pod | Kind::PersistentVolumeClaim => {
            Some(Changed { kind: "object", key: &new.uid, at })
        }
        Kind::Node => Some(Changed { kind: "node", key: &new.name, at }),
        _ => None,
    }
}

/// The columns of a transition, of the table `transitions` as `t`.
pub(crate) const COLUMNS: &str =
    "t.id, t.service_id, t.kind, t.uid, t.name, t.what, t.container, t.detail, t.at, t.seen_at, t.after,
     t.resource_version, t.observer, t.epoch";

/// Appends transitions with one statement.
///
/// A transition that the log already has, by uid, kind of transition and version, is not added
/// again, even if its head was lost.
async fn append(
    tx: &mut Tx,
    observer: &Observer,
    transitions: &[New],
    ids: &[TransitionId],
) -> Result<(), Error> {
    if transitions.is_empty() {
        return Ok(());
    }
    let detail: Vec<(String, Option<String>, Json<serde_json::Value>)> =
        transitions.iter().map(|new| series::columns(&new.what)).collect();
    sqlx::query(
        "insert into transitions (id, org_id, service_id, cluster_id, kind, uid, namespace, name, what, container,
                                  detail, at, seen_at, after, resource_version, observer, epoch)
         select n.id, n.org_id, n.service_id, $1, n.kind, n.uid, n.namespace, n.name, n.what, n.container,
                nullif(n.detail, '{}'), n.at, n.seen_at, n.after, n.version, $2, $3
         from unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
                     $12::text[], $13::jsonb[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::text[])
              as n (id, org_id, service_id, kind, uid, namespace, name, what, container, detail, at, seen_at, after, version)
         where not exists (select from transitions t
                           where t.cluster_id = $1 and t.uid = n.uid and t.what = n.what
                             and t.container is not distinct from n.container
                             and t.at is not distinct from n.at and t.resource_version = n.version)",
    )
    .bind(observer.lease.scope.uuid())
    .bind(&observer.name)
    .bind(observer.lease.epoch)
    .bind(transitions.iter().map(|new| ids[new.place].uuid()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.owner.org.uuid()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.owner.service.map(ServiceId::uuid)).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.kind.as_str()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.uid.as_str()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.namespace.as_str()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.name.as_str()).collect::<Vec<_>>())
    .bind(detail.iter().map(|(what, ..)| what.as_str()).collect::<Vec<_>>())
    .bind(detail.iter().map(|(_, container, _)| container.as_deref()).collect::<Vec<_>>())
    .bind(detail.iter().map(|(.., detail)| detail.clone()).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.at.map(sql)).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| sql(new.seen_at)).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.after.map(sql)).collect::<Vec<_>>())
    .bind(transitions.iter().map(|new| new.version.as_str()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn append_gaps(
    tx: &mut Tx,
    observer: &Observer,
    gaps: &[Gap],
    ids: &[TransitionId],
) -> Result<(), Error> {
    if gaps.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into watch_gaps (id, cluster_id, kind, from_at, until_at, observer, epoch)
         select n.id, $1, n.kind, n.from_at, n.until_at, $2, $3
         from unnest($4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[]) as n (id, kind, from_at, until_at)
         where not exists (select from watch_gaps g where g.cluster_id = $1 and g.kind = n.kind
                             and g.until_at = n.until_at and g.epoch = $3)",
    )
    .bind(observer.lease.scope.uuid())
    .bind(&observer.name)
    .bind(observer.lease.epoch)
    .bind(gaps.iter().map(|gap| ids[gap.place].uuid()).collect::<Vec<_>>())
    .bind(gaps.iter().map(|gap| gap.kind.as_str()).collect::<Vec<_>>())
    .bind(gaps.iter().map(|gap| gap.from.map(sql)).collect::<Vec<_>>())
    .bind(gaps.iter().map(|gap| sql(gap.until)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// New ids in increasing order.
fn ids(count: usize, now: Timestamp) -> Vec<TransitionId> {
    let mut ids: Vec<TransitionId> = (0..count).map(|_| new_id(now)).collect();
    ids.sort_unstable_by_key(|id| id.uuid());
    ids
}

impl App {
    /// The transitions of a service's pods and disks after the given one, oldest first, with gaps
    /// in observation; `None` if there is no such service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_transitions(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        after: Option<TransitionId>,
        limit: i64,
    ) -> Result<Option<Vec<Transition>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(row) = find(&mut tx, project, service).await? else { return Ok(None) };
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "select * from (
               (select {COLUMNS} from transitions t where t.service_id = $1 and t.id > $2 order by t.id limit $3)
               union all
               (select g.id, null, g.kind, '', '', 'unobserved', null, null, null, g.until_at, g.from_at,
                       '', g.observer, g.epoch
                from watch_gaps g join services s on s.id = $1 and s.cluster_id = g.cluster_id
                where g.id > $2 and g.kind in ('Pod', 'PersistentVolumeClaim', 'PersistentVolume')
                  and g.until_at >= s.created_at
                  and (s.deleted_at is null or g.until_at <= s.deleted_at)
                order by g.id limit $3)) both_of_them
             order by id limit $3"
        )))
        .bind(row.service.id.uuid())
        .bind(after.map_or(uuid::Uuid::nil(), TransitionId::uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        rows.iter().map(transition).collect::<Result<_, _>>().map(Some)
    }
}

/// How many transitions explain a line of an invoice at most.
const MAX_EXPLAINED: i64 = 1000;

/// The transitions of objects of an org, oldest first.
pub(crate) async fn of_objects(
    tx: &mut Tx,
    org: OrgId,
    uids: &[String],
) -> Result<Vec<Transition>, Error> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from transitions t where t.org_id = $1 and t.uid = any($2)
         order by t.id limit $3"
    )))
    .bind(org.uuid())
    .bind(uids)
    .bind(MAX_EXPLAINED)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(transition).collect()
}

pub(crate) fn transition(row: &PgRow) -> Result<Transition, Error> {
    let time = |column: &str| {
        let time: Option<jiff_sqlx::Timestamp> = row.try_get(column)?;
        Ok::<_, Error>(time.map(jiff_sqlx::Timestamp::to_jiff))
    };
    let what: String = row.try_get("what")?;
    let container: Option<String> = row.try_get("container")?;
    let detail: Option<Json<serde_json::Value>> = row.try_get("detail")?;
    let service: Option<uuid::Uuid> = row.try_get("service_id")?;
    Ok(Transition {
        id: TransitionId::from_uuid(row.try_get("id")?),
        service: service.map(ServiceId::from_uuid),
        kind: read("kind", row.try_get("kind")?)?,
        uid: row.try_get("uid")?,
        name: row.try_get("name")?,
        what: read_json("transition", series::whole(&what, container, detail))?,
        at: time("at")?,
        seen_at: row.try_get::<jiff_sqlx::Timestamp, _>("seen_at")?.to_jiff(),
        after: time("after")?,
        resource_version: row.try_get("resource_version")?,
        observer: row.try_get("observer")?,
        epoch: row.try_get("epoch")?,
    })
}
