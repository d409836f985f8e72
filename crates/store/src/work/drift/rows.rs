//! The rows of divergences and conflicts: read and written for many units at once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::drift::FieldRef;
use trueup_model::id::{ConflictId, OrgId, ProjectId};
use trueup_model::order::Unit;
use uuid::Uuid;

use super::entry::{Change, Entry};
use crate::Error;
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, unit_uuid};
use crate::drift::{COLUMNS, record};
use crate::work::lease::Lease;

/// The unit that a row is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) unit: Unit,
    pub(super) org: OrgId,
    pub(super) project: ProjectId,
}

/// A field that two writers fight over.
pub(super) struct Fight {
    pub(super) owner: Owner,
    pub(super) at: FieldRef,
    pub(super) by: Option<String>,
}

/// Locks and reads the divergences of these units that may still change.
pub(super) async fn load(
    tx: &mut Tx,
    lease: Lease,
    units: &[Unit],
) -> Result<BTreeMap<Unit, Vec<Entry>>, Error> {
    let statement = format!(
        "select {COLUMNS} from divergences d
         where d.subject_id = any($2) and (d.ended_at is null or d.gone_at is null)
           and d.cluster_id = $1 order by d.id for update"
    );
    let rows = sqlx::query(AssertSqlSafe(statement))
        .bind(lease.scope.uuid())
        .bind(units.iter().map(|unit| unit_uuid(*unit)).collect::<Vec<_>>())
        .fetch_all(&mut **tx)
        .await?;
    let mut entries: BTreeMap<Unit, Vec<Entry>> = BTreeMap::new();
    for row in &rows {
        let found = record(row)?;
        entries.entry(found.unit).or_default().push(Entry {
            id: found.id,
            divergence: found.divergence,
            generation: row.try_get("generation")?,
            first_seen_at: found.first_seen_at,
            last_seen_at: found.last_seen_at,
            gone_at: maybe_time(row, "gone_at")?,
            ended_at: found.ended_at,
            expires_at: found.expires_at,
            hourly: found.hourly,
            change: Change::Nothing,
        });
    }
    Ok(entries)
}

/// Writes what changed. Updates come first: an ended row makes room for a new one of its field.
pub(super) async fn store(
    tx: &mut Tx,
    lease: Lease,
    entries: &[(Owner, Entry)],
) -> Result<(), Error> {
    let of = |change: Change| {
        entries.iter().filter(|(_, entry)| entry.change == change).collect::<Vec<_>>()
    };
    let (updated, new) = (of(Change::Update), of(Change::Insert));
    if !updated.is_empty() {
        update(tx, &updated).await?;
    }
    if !new.is_empty() {
        insert(tx, lease, &new).await?;
    }
    Ok(())
}

/// One column of many rows.
fn column<T>(rows: &[&(Owner, Entry)], of: impl Fn(&Entry) -> T) -> Vec<T> {
    rows.iter().map(|(_, entry)| of(entry)).collect()
}

/// No value is stored as null.
fn value(value: &Value) -> Option<Json<Value>> {
    (!value.is_null()).then(|| Json(value.clone()))
}

async fn update(tx: &mut Tx, rows: &[&(Owner, Entry)]) -> Result<(), Error> {
    sqlx::query(
        "update divergences d set class = n.class, wanted = n.wanted, live = n.live, manager = n.manager,
                verdict = n.verdict, state = n.state, generation = n.generation,
                last_seen_at = n.last_seen_at, gone_at = n.gone_at, ended_at = n.ended_at,
                expires_at = n.expires_at, hourly_micros = n.hourly_micros, currency = n.currency
         from unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::jsonb[], $6::text[], $7::text[],
                     $8::text[], $9::bigint[], $10::timestamptz[], $11::timestamptz[],
                     $12::timestamptz[], $13::timestamptz[], $14::bigint[], $15::text[])
              as n (id, org_id, class, wanted, live, manager, verdict, state, generation, last_seen_at,
                    gone_at, ended_at, expires_at, hourly_micros, currency)
         where d.id = n.id and d.org_id = n.org_id",
    )
    .bind(column(rows, |entry| entry.id.uuid()))
    .bind(rows.iter().map(|(owner, _)| owner.org.uuid()).collect::<Vec<_>>())
    .bind(column(rows, |entry| entry.divergence.class.into_str()))
    .bind(column(rows, |entry| value(&entry.divergence.wanted)))
    .bind(column(rows, |entry| value(&entry.divergence.live)))
    .bind(column(rows, |entry| entry.divergence.by.clone()))
    .bind(column(rows, |entry| entry.divergence.verdict.into_str()))
    .bind(column(rows, |entry| entry.divergence.state.into_str()))
    .bind(column(rows, |entry| entry.generation))
    .bind(column(rows, |entry| sql(entry.last_seen_at)))
    .bind(column(rows, |entry| entry.gone_at.map(sql)))
    .bind(column(rows, |entry| entry.ended_at.map(sql)))
    .bind(column(rows, |entry| entry.expires_at.map(sql)))
    .bind(column(rows, |entry| entry.hourly.map(|hourly| hourly.micros)))
    .bind(column(rows, |entry| entry.hourly.map(|hourly| hourly.currency.to_string())))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn insert(tx: &mut Tx, lease: Lease, rows: &[&(Owner, Entry)]) -> Result<(), Error> {
    sqlx::query(
        "insert into divergences (cluster_id, id, org_id, project_id, subject_kind, subject_id, kind,
                                  namespace, name, field, class, wanted, live, manager, verdict, state,
                                  generation, first_seen_at, last_seen_at, gone_at, ended_at,
                                  expires_at, hourly_micros, currency)
         select $1, n.* from unnest(
             $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::uuid[], $7::text[], $8::text[],
             $9::text[], $10::text[], $11::text[], $12::jsonb[], $13::jsonb[], $14::text[], $15::text[],
             $16::text[], $17::bigint[], $18::timestamptz[], $19::timestamptz[], $20::timestamptz[],
             $21::timestamptz[], $22::timestamptz[], $23::bigint[], $24::text[]) as n",
    )
    .bind(lease.scope.uuid())
    .bind(column(rows, |entry| entry.id.uuid()))
    .bind(rows.iter().map(|(owner, _)| owner.org.uuid()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(owner, _)| owner.project.uuid()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(owner, _)| owner.unit.kind()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(owner, _)| unit_uuid(owner.unit)).collect::<Vec<_>>())
    .bind(column(rows, |entry| entry.divergence.key.kind.as_str()))
    .bind(column(rows, |entry| entry.divergence.key.namespace.clone()))
    .bind(column(rows, |entry| entry.divergence.key.name.clone()))
    .bind(column(rows, |entry| entry.divergence.field.clone()))
    .bind(column(rows, |entry| entry.divergence.class.into_str()))
    .bind(column(rows, |entry| value(&entry.divergence.wanted)))
    .bind(column(rows, |entry| value(&entry.divergence.live)))
    .bind(column(rows, |entry| entry.divergence.by.clone()))
    .bind(column(rows, |entry| entry.divergence.verdict.into_str()))
    .bind(column(rows, |entry| entry.divergence.state.into_str()))
    .bind(column(rows, |entry| entry.generation))
    .bind(column(rows, |entry| sql(entry.first_seen_at)))
    .bind(column(rows, |entry| sql(entry.last_seen_at)))
    .bind(column(rows, |entry| entry.gone_at.map(sql)))
    .bind(column(rows, |entry| entry.ended_at.map(sql)))
    .bind(column(rows, |entry| entry.expires_at.map(sql)))
    .bind(column(rows, |entry| entry.hourly.map(|hourly| hourly.micros)))
    .bind(column(rows, |entry| entry.hourly.map(|hourly| hourly.currency.to_string())))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Raises conflicts, one for each field that has none; returns the new ones by their fight.
///
/// None is raised while a decision about the field holds: the report is from before it.
pub(super) async fn raise<'a>(
    tx: &mut Tx,
    lease: Lease,
    fights: &'a [Fight],
    now: Timestamp,
) -> Result<Vec<(ConflictId, &'a Fight)>, Error> {
    let new: Vec<(ConflictId, &Fight)> = fights.iter().map(|fight| (new_id(now), fight)).collect();
    // Waits for a decision that is being recorded, so that the next statement sees it.
    sqlx::query(
        "select from conflicts c where c.cluster_id = $1 and c.subject_id = any($2)
         order by c.id for update",
    )
    .bind(lease.scope.uuid())
    .bind(fights.iter().map(|fight| unit_uuid(fight.owner.unit)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    let raised: Vec<(Uuid,)> = sqlx::query_as(
        "insert into conflicts (cluster_id, raised_at, id, org_id, project_id, subject_kind, subject_id,
                                kind, namespace, name, field, manager)
         select $1, $2, n.* from unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[],
                                        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
              as n (id, org_id, project_id, subject_kind, subject_id, kind, namespace, name, field, manager)
         where not exists (
             select from conflicts c
             where c.subject_id = n.subject_id and c.kind = n.kind and c.namespace = n.namespace
               and c.name = n.name and c.field = n.field and c.cluster_id = $1
               and c.decision in ('ours', 'ignore') and (c.holds_until is null or c.holds_until > $2))
         on conflict (cluster_id, subject_id, kind, namespace, name, field) where settled_at is null
             do nothing
         returning id",
    )
    .bind(lease.scope.uuid())
    .bind(sql(now))
    .bind(new.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.owner.org.uuid()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.owner.project.uuid()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.owner.unit.kind()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| unit_uuid(fight.owner.unit)).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.at.key.kind.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.at.key.namespace.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.at.key.name.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.at.field.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, fight)| fight.by.as_deref()).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    Ok(new.into_iter().filter(|(id, _)| raised.contains(&(id.uuid(),))).collect())
}
