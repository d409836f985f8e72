//! What orders say about drift: policies, decisions about single fields, and the rounds of fights.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::drift::{
    ConflictDecision, DivergenceState, DriftPolicy, FIGHT_WINDOW, FieldDecision, FieldRef,
};
use trueup_model::order::{Order, Unit};
use trueup_model::service::Service;
use uuid::Uuid;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{key, maybe_time, read, read_json, unit, unit_uuid};
use crate::template::version;

/// The policies of a service, its project and its template, from a row with the latter two.
pub(crate) fn policies(own: DriftPolicy, row: &PgRow) -> Result<Vec<DriftPolicy>, Error> {
    let of_project: DriftPolicy = read_json("drift policy", row.try_get("project_drift")?)?;
    let of_template: Option<Json<Value>> = row.try_get("template_drift")?;
    let of_template = of_template.map(|policy| read_json("drift policy", policy)).transpose()?;
    let all = [own, of_project, of_template.unwrap_or_default()];
    Ok(all.into_iter().filter(|policy| !policy.is_empty()).collect())
}

/// The policies of a service that is not accepted yet.
pub(super) async fn would_be_policies(
    tx: &mut Tx,
    service: &Service,
) -> Result<Vec<DriftPolicy>, Error> {
    let row = sqlx::query(
        "select p.drift as project_drift, t.body -> 'drift' as template_drift
         from projects p left join templates t on t.name = $2 and t.version = $3 where p.id = $1",
    )
    .bind(service.project.uuid())
    .bind(service.template.name.as_str())
    .bind(version(service.template.version))
    .fetch_one(&mut **tx)
    .await?;
    policies(service.drift.clone(), &row)
}

/// Adds the decisions about single fields, and the rounds of fights.
pub(super) async fn load(
    tx: &mut Tx,
    orders: &mut BTreeMap<Unit, Order>,
    now: Timestamp,
) -> Result<(), Error> {
    load_conflicts(tx, orders, now).await?;
    load_divergences(tx, orders, now).await
}

fn ids(orders: &BTreeMap<Unit, Order>) -> Vec<Uuid> {
    orders.keys().map(|unit| unit_uuid(*unit)).collect()
}

/// The order that a row is about, and the field.
fn order_of<'a>(
    row: &PgRow,
    orders: &'a mut BTreeMap<Unit, Order>,
) -> Result<Option<(&'a mut Order, FieldRef)>, Error> {
    let kind: String = row.try_get("subject_kind")?;
    let unit = unit(&kind, row.try_get("subject_id")?)?;
    let at = FieldRef { key: key(row)?, field: row.try_get("field")? };
    Ok(orders.get_mut(&unit).map(|order| (order, at)))
}

/// Adds fields in conflict, and decisions about conflicts while they hold.
///
/// Only the newest conflict of a field counts. An adopted value is the desired one, and needs no
/// decision.
async fn load_conflicts(
    tx: &mut Tx,
    orders: &mut BTreeMap<Unit, Order>,
    now: Timestamp,
) -> Result<(), Error> {
    let rows = sqlx::query(
        "select distinct on (subject_id, kind, namespace, name, field)
                subject_kind, subject_id, kind, namespace, name, field, decision, holds_until
         from conflicts where subject_id = any($1)
         order by subject_id, kind, namespace, name, field, id desc",
    )
    .bind(ids(orders))
    .fetch_all(&mut **tx)
    .await?;
    for row in &rows {
        let decision: Option<String> = row.try_get("decision")?;
        let decision = decision.map(|decision| read("decision", decision)).transpose()?;
        let until = maybe_time(row, "holds_until")?;
        let decision = match decision {
            None => FieldDecision::InConflict,
            Some(_) if until.is_some_and(|until| until <= now) => continue,
            Some(ConflictDecision::Ours) => FieldDecision::Enforce { until },
            Some(ConflictDecision::Ignore) => FieldDecision::Ignore { until },
            Some(ConflictDecision::Adopt) => continue,
        };
        if let Some((order, at)) = order_of(row, orders)? {
            order.drift.fields.insert(at, decision);
        }
    }
    Ok(())
}

/// Adds proposals whose value is kept, values to be reverted, and the rounds of fights.
///
/// A rejected or expired value that is still there has a proposal that is over: it is reverted, and
/// not proposed again. What was reverted before a conflict was settled does not count any more.
async fn load_divergences(
    tx: &mut Tx,
    orders: &mut BTreeMap<Unit, Order>,
    now: Timestamp,
) -> Result<(), Error> {
    let rows = sqlx::query(
        "select subject_kind, subject_id, kind, namespace, name, field, state, gone_at, ended_at, expires_at
         from divergences d
         where subject_id = any($1) and (
             gone_at is null and state in ('proposed', 'rejected', 'expired')
             or gone_at > $2 and state in ('reverted', 'adopted', 'proposed', 'rejected', 'expired')
                and not exists (
                    select from conflicts c
                    where c.subject_id = d.subject_id and c.kind = d.kind and c.namespace = d.namespace
                      and c.name = d.name and c.field = d.field and c.settled_at >= d.gone_at))
         order by gone_at, id",
    )
    .bind(ids(orders))
    .bind(sql(now.checked_sub(FIGHT_WINDOW).unwrap_or(Timestamp::MIN)))
    .fetch_all(&mut **tx)
    .await?;
    for row in &rows {
        let state: DivergenceState = read("state of a divergence", row.try_get("state")?)?;
        let until = match state {
            DivergenceState::Proposed => maybe_time(row, "expires_at")?,
            _ => maybe_time(row, "ended_at")?,
        };
        let gone_at = maybe_time(row, "gone_at")?;
        let Some((order, at)) = order_of(row, orders)? else { continue };
        match (gone_at, until) {
            (Some(gone_at), _) => order.drift.rounds.entry(at).or_default().push(gone_at),
            (None, Some(until)) => {
                order.drift.fields.entry(at).or_insert(FieldDecision::Proposed { until });
            }
            (None, None) => {}
        }
    }
    Ok(())
}
