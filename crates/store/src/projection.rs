//! Rebuilds projections from their stored inputs: to compare them with what is stored, and to
//! replace those that older rules computed.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::FromRow;
use sqlx::types::Json;
use trueup_model::event::{Fact, NewEvent, ServicePhaseChanged, Source};
use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::status::{Inputs, Status};
use trueup_rules::RULES_VERSION;
use trueup_rules::status::project;
use uuid::Uuid;

use crate::db::new_id::new_id;
use crate::db::row::{json, read_json, unit, unit_uuid};
use crate::status::NewStatus;
use crate::work::lease::{Lease, fence};
use crate::{App, Error, Worker, event, status};

/// A projection that was computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// Its unit.
    pub unit: Unit,
    /// How it compares with the stored one.
    pub comparison: Comparison,
}

/// How a stored projection compares with the rebuilt one.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Byte for byte the same.
    Same,
    /// Computed by this other version of the rules, which may give another result.
    Older(i32),
    /// Nothing was observed yet, so nothing was computed.
    Unobserved,
    /// It differs from what its inputs give.
    Different {
        /// What is stored.
        stored: Value,
        /// What the inputs give.
        rebuilt: Value,
    },
}

impl App {
    /// Rebuilds a page of the org's projections, in the order of their units.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn rebuild_projections(
        &self,
        org: OrgId,
        after: Option<Unit>,
        limit: i64,
    ) -> Result<Vec<Rebuilt>, Error> {
        #[derive(FromRow)]
        struct Columns {
            subject_kind: String,
            subject_id: Uuid,
            status: Json<Value>,
            inputs: Option<Json<Value>>,
            as_of: jiff_sqlx::Timestamp,
            rules_version: i32,
        }
        let mut tx = self.begin(org).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select subject_kind, subject_id, status, inputs, as_of, rules_version from statuses
             where org_id = trueup_org() and subject_id > $1 order by subject_id limit $2",
        )
        .bind(after.map_or(Uuid::nil(), unit_uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        rows.into_iter()
            .map(|row| {
                let Json(stored) = row.status;
                let comparison = match row.inputs {
                    None => Comparison::Unobserved,
                    Some(_) if row.rules_version != RULES_VERSION => {
                        Comparison::Older(row.rules_version)
                    }
                    Some(inputs) => {
                        let inputs: Inputs = read_json("inputs", inputs)?;
                        let Json(rebuilt) = json(&project(&inputs, row.as_of.to_jiff()));
                        if is_same(&rebuilt, &stored) {
                            Comparison::Same
                        } else {
                            Comparison::Different { stored, rebuilt }
                        }
                    }
                };
                Ok(Rebuilt { unit: unit(&row.subject_kind, row.subject_id)?, comparison })
            })
            .collect()
    }
}

/// Whether two projections are the same byte for byte: equal values could still be serialized
/// differently.
fn is_same(one: &Value, other: &Value) -> bool {
    let bytes = |value: &Value| serde_json::to_vec(value).unwrap_or_default();
    bytes(one) == bytes(other)
}

/// The result of one batch of [`Worker::reproject_statuses`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reprojected {
    /// The last unit of the batch; `None` if no status of older rules was left.
    pub last: Option<Unit>,
    /// How many projections changed.
    pub changed: usize,
    /// Units whose stored inputs cannot be read; their statuses were not touched.
    pub unreadable: Vec<Unit>,
}

/// A status that older rules computed.
#[derive(FromRow)]
struct Older {
    subject_kind: String,
    subject_id: Uuid,
    org_id: Uuid,
    phase: String,
    health: String,
    status: Json<Value>,
    inputs: Option<Json<Value>>,
    as_of: jiff_sqlx::Timestamp,
}

impl Worker {
    /// Projects a batch of statuses of older rules again, in the order of their units.
    ///
    /// A status whose projection is the same only gets the new version. An event is recorded only
    /// if phase or health changed.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn reproject_statuses(
        &self,
        lease: Lease,
        after: Option<Unit>,
        limit: i64,
        now: Timestamp,
    ) -> Result<Reprojected, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        // Locked in the same order as by the report writer, so that neither waits for the other in
        // a circle. A process with newer rules may have written some: those are left alone.
        let rows: Vec<Older> = sqlx::query_as(
            "select subject_kind, subject_id, org_id, phase, health, status, inputs, as_of from statuses
             where rules_version < $1 and (subject_kind, subject_id) > ($2, $3)
             order by subject_kind, subject_id limit $4 for update",
        )
        .bind(RULES_VERSION)
        .bind(after.map_or("", Unit::kind))
        .bind(after.map_or(Uuid::nil(), unit_uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        let mut batch = Reprojected::default();
        let (mut same, mut changed, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let unit = unit(&row.subject_kind, row.subject_id)?;
            batch.last = Some(unit);
            let Some(inputs) = row.inputs else {
                same.push(unit);
                continue;
            };
            let Ok(inputs) = read_json::<Inputs>("inputs", inputs) else {
                batch.unreadable.push(unit);
                continue;
            };
            let as_of = row.as_of.to_jiff();
            let status = project(&inputs, as_of);
            let Json(rebuilt) = json(&status);
            if is_same(&rebuilt, &row.status) {
                same.push(unit);
                continue;
            }
            if (row.phase.as_str(), row.health.as_str())
                != (status.phase.into_str(), status.health.into_str())
            {
                let org = OrgId::from_uuid(row.org_id);
                events.push(phase_changed(unit, org, inputs.generation, &status, now));
            }
            changed.push(NewStatus { unit, status, inputs, as_of });
        }
        batch.changed = changed.len();
        status::mark_current(&mut tx, &same).await?;
        status::store(&mut tx, &changed).await?;
        event::record(&mut tx, &events).await?;
        tx.commit().await?;
        Ok(batch)
    }
}

/// The event for a phase or health that only the newer rules gave.
fn phase_changed(
    unit: Unit,
    org: OrgId,
    generation: i64,
    status: &Status,
    now: Timestamp,
) -> NewEvent {
    let message = status.conditions.first().map(|condition| condition.message.clone());
    NewEvent {
        id: new_id(now),
        org,
        source: Source::System,
        subject: unit.into(),
        generation,
        at: now,
        fact: Fact::ServicePhaseChanged(ServicePhaseChanged {
            phase: status.phase,
            health: status.health,
            message,
        }),
        trace: None,
        cause: None,
    }
}
