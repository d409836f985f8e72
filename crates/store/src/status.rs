//! Statuses: the projected status of each unit, with the inputs it was computed from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::status::{Inputs, Status};
use trueup_rules::RULES_VERSION;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json, unit, unit_uuid};
use crate::{Error, Worker};

/// A status about to be stored.
pub(crate) struct NewStatus {
    pub(crate) unit: Unit,
    pub(crate) status: Status,
    pub(crate) inputs: Inputs,
    /// The time it was projected at: the one input that is not in `inputs`.
    pub(crate) as_of: Timestamp,
}

/// Inserts the status of a unit that was accepted for the first time.
pub(crate) async fn accept(tx: &mut Tx, of: Unit, org: OrgId, now: Timestamp) -> Result<(), Error> {
    let status = Status::accepted(now);
    sqlx::query(
        "insert into statuses (subject_kind, subject_id, org_id, phase, health, status, as_of, rules_version)
         values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (subject_kind, subject_id) do nothing",
    )
    .bind(of.kind())
    .bind(unit_uuid(of))
    .bind(org.uuid())
    .bind(status.phase.into_str())
    .bind(status.health.into_str())
    .bind(json(&status))
    .bind(sql(now))
    .bind(RULES_VERSION)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

type Columns = (String, Uuid, Json<Value>, Option<Json<Value>>);

/// Locks and loads the status of these units and, once observed, its inputs.
///
/// Units that do not belong to the given org are left out.
pub(crate) async fn load(
    tx: &mut Tx,
    units: &[(Unit, OrgId)],
) -> Result<Vec<(Unit, Status, Option<Inputs>)>, Error> {
    let rows: Vec<Columns> = sqlx::query_as(
        "select subject_kind, subject_id, status, inputs from statuses
         where subject_id = any($1)
           and (subject_id, org_id) in (select * from unnest($1::uuid[], $2::uuid[]))
         order by subject_kind, subject_id for update",
    )
    .bind(units.iter().map(|(unit, _)| unit_uuid(*unit)).collect::<Vec<_>>())
    .bind(units.iter().map(|(_, org)| org.uuid()).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(kind, id, status, inputs)| {
            let inputs = inputs.map(|inputs| read_json("inputs", inputs)).transpose()?;
            Ok((unit(&kind, id)?, read_json("status", status)?, inputs))
        })
        .collect()
}

pub(crate) async fn store(tx: &mut Tx, new: &[NewStatus]) -> Result<(), Error> {
    sqlx::query(
        "update statuses s set phase = n.phase, health = n.health, status = n.status, inputs = n.inputs,
                as_of = n.as_of, rules_version = $7, projection = s.projection + 1
         from unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::timestamptz[])
              as n (subject_id, phase, health, status, inputs, as_of)
         where s.subject_id = n.subject_id",
    )
    .bind(new.iter().map(|new| unit_uuid(new.unit)).collect::<Vec<_>>())
    .bind(new.iter().map(|new| new.status.phase.into_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|new| new.status.health.into_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|new| json(&new.status)).collect::<Vec<_>>())
    .bind(new.iter().map(|new| json(&new.inputs)).collect::<Vec<_>>())
    .bind(new.iter().map(|new| sql(new.as_of)).collect::<Vec<_>>())
    .bind(RULES_VERSION)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that the current rules give these units the status that is stored.
pub(crate) async fn mark_current(tx: &mut Tx, units: &[Unit]) -> Result<(), Error> {
    sqlx::query("update statuses set rules_version = $2 where subject_id = any($1)")
        .bind(units.iter().map(|unit| unit_uuid(*unit)).collect::<Vec<_>>())
        .bind(RULES_VERSION)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

impl Worker {
    /// The current generation of these services, and when it was accepted. Projects are left out.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn accepted_at(
        &self,
        units: &[Unit],
    ) -> Result<BTreeMap<Unit, (i64, Timestamp)>, Error> {
        let rows: Vec<(Uuid, i64, jiff_sqlx::Timestamp)> =
            sqlx::query_as("select id, generation, accepted_at from services where id = any($1)")
                .bind(units.iter().map(|unit| unit_uuid(*unit)).collect::<Vec<_>>())
                .fetch_all(self.pool())
                .await?;
        rows.into_iter()
            .map(|(id, generation, at)| Ok((unit("service", id)?, (generation, at.to_jiff()))))
            .collect()
    }
}
