//! Settles conflicts: whose value of a field holds, and for how long.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;
use trueup_model::drift::{Conflict, ConflictDecision, DivergenceRecord, FieldRef};
use trueup_model::event::{ConflictSettled, Fact};
use trueup_model::id::{ConflictId, OrgId};
use trueup_model::wake::Lane;
use trueup_rules::drift::decide::why_enforced;
use uuid::Uuid;

use super::config::invalid;
use super::drift::adopt_value;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::conflict::{ConflictRow, find};
use crate::db::clock::sql;
use crate::db::row::unit_uuid;
use crate::drift::{COLUMNS, record};
use crate::work::wake::generation;
use crate::{App, Error};

impl App {
    /// Settles a conflict; the decision holds until a time, or for ever.
    ///
    /// A conflict that is settled already is decided anew only by naming its decision, `instead_of`.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    #[expect(clippy::too_many_arguments, reason = "a decision is what to do and for how long")]
    pub async fn settle_conflict(
        &self,
        org: OrgId,
        id: ConflictId,
        decision: ConflictDecision,
        until: Option<Timestamp>,
        instead_of: Option<ConflictDecision>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ConflictRow>, Refusal> {
        self.write(org, context, now, |write| settle(write, id, (decision, until), instead_of))
            .await
    }
}

async fn settle(
    mut write: Write<'_>,
    id: ConflictId,
    (decision, until): (ConflictDecision, Option<Timestamp>),
    instead_of: Option<ConflictDecision>,
) -> Result<Accepted<ConflictRow>, Refusal> {
    let repeated = write.earlier().await?.is_some();
    let found = require(&mut write, id).await?;
    if repeated {
        return Ok(Accepted { row: found, changed: false });
    }
    check_decided(&found.conflict, instead_of)?;
    check_end(decision, until, write.now)?;
    match decision {
        ConflictDecision::Adopt if instead_of.is_some() => {
            let message = "is not possible with `adopt`; adopt a value that is live with \
                           `trueup drift adopt`";
            Err(invalid("instead_of", message.to_owned()))
        }
        ConflictDecision::Adopt => settle_by_adoption(write, &found.conflict).await,
        ConflictDecision::Ours => {
            settle_as(write, &found.conflict, (decision, until), instead_of).await
        }
        ConflictDecision::Ignore => {
            check_ignorable(&mut write, &found.conflict).await?;
            settle_as(write, &found.conflict, (decision, until), instead_of).await
        }
    }
}

/// Refuses to leave alone what is always enforced: the decision would have no effect.
async fn check_ignorable(write: &mut Write<'_>, of: &Conflict) -> Result<(), Refusal> {
    let FieldRef { key, field } = &of.at;
    let live = find_standing(write, of).await?.map(|standing| standing.divergence.live);
    let Some(why) = why_enforced(key.kind, field, live.as_ref()) else { return Ok(()) };
    let message = format!(
        "`ignore` is not possible: {why}; stop the other writer, and settle the conflict with `ours`"
    );
    Err(invalid("decision", message))
}

/// Enforces the field again, or leaves it to the other writer.
async fn settle_as(
    mut write: Write<'_>,
    of: &Conflict,
    (decision, until): (ConflictDecision, Option<Timestamp>),
    instead_of: Option<ConflictDecision>,
) -> Result<Accepted<ConflictRow>, Refusal> {
    let settled = sqlx::query(
        "update conflicts set decision = $2, settled_by = $3, settled_at = $4, holds_until = $5
         where id = $1 and decision is not distinct from $6",
    )
    .bind(of.id.uuid())
    .bind(decision.into_str())
    .bind(write.principal_name())
    .bind(sql(write.now))
    .bind(until.map(sql))
    .bind(instead_of.as_ref().map(ConflictDecision::into_str))
    .execute(&mut *write.tx)
    .await?;
    let row = require(&mut write, of.id).await?;
    if settled.rows_affected() == 0 {
        // Another request settled it meanwhile.
        check_decided(&row.conflict, instead_of)?;
    }
    let generation = generation(&mut write.tx, of.unit, of.org).await?.unwrap_or_default();
    let fact = fact(&write, of.id, &of.at, (decision, until));
    write.record_about(of.unit, generation, fact).await?;
    write.wake(of.unit, of.cluster, Lane::UserChange).await?;
    write.finish_as(&of.id.to_string(), Accepted { row, changed: true }).await
}

/// Makes the other writer's value the desired one.
async fn settle_by_adoption(
    mut write: Write<'_>,
    of: &Conflict,
) -> Result<Accepted<ConflictRow>, Refusal> {
    let standing = find_standing(&mut write, of).await?.ok_or_else(|| {
        let message = "the field has its desired value now, so there is nothing to adopt; settle the \
                       conflict with `ours` or `ignore`";
        invalid("decision", message.to_owned())
    })?;
    let next = adopt_value(&mut write, &standing, None, None).await?;
    write.remember(&of.id.to_string()).await?;
    let row = require(&mut write, of.id).await?;
    let adopted = |conflict: &Conflict| {
        let settled = conflict.settled.as_ref();
        settled.is_some_and(|settled| settled.decision == ConflictDecision::Adopt)
    };
    if !adopted(&row.conflict) {
        // Another request settled it meanwhile.
        check_decided(&row.conflict, None)?;
    }
    write.reserve_and_wake(&next).await?;
    write.finish(Accepted { row, changed: true }).await
}

/// Settles the open conflict about the field of an adopted divergence, if there is one.
pub(super) async fn settle_adopted(
    write: &mut Write<'_>,
    of: &DivergenceRecord,
    generation: i64,
) -> Result<(), Error> {
    let at = FieldRef { key: of.divergence.key.clone(), field: of.divergence.field.clone() };
    let settled: Option<(Uuid,)> = sqlx::query_as(
        "update conflicts set decision = 'adopt', settled_by = $7, settled_at = $8
         where subject_id = $1 and cluster_id = $2 and kind = $3 and namespace = $4 and name = $5
           and field = $6 and settled_at is null
         returning id",
    )
    .bind(unit_uuid(of.unit))
    .bind(of.cluster.uuid())
    .bind(at.key.kind.as_str())
    .bind(&at.key.namespace)
    .bind(&at.key.name)
    .bind(&at.field)
    .bind(write.principal_name())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await?;
    let Some((id,)) = settled else { return Ok(()) };
    let fact = fact(write, ConflictId::from_uuid(id), &at, (ConflictDecision::Adopt, None));
    write.record_about(of.unit, generation, fact).await
}

fn fact(
    write: &Write<'_>,
    conflict: ConflictId,
    at: &FieldRef,
    (decision, until): (ConflictDecision, Option<Timestamp>),
) -> Fact {
    Fact::ConflictSettled(ConflictSettled {
        conflict,
        key: at.key.clone(),
        field: at.field.clone(),
        decision,
        until,
        principal: write.principal(),
    })
}

async fn require(write: &mut Write<'_>, id: ConflictId) -> Result<ConflictRow, Refusal> {
    find(&mut write.tx, id).await?.ok_or(Refusal::NotFound("conflict"))
}

/// Refuses to decide about a conflict again: says how it was settled, when and by whom. Somebody who
/// names that decision knows it, and may replace it; an adopted value is the desired one for good.
fn check_decided(of: &Conflict, instead_of: Option<ConflictDecision>) -> Result<(), Refusal> {
    match &of.settled {
        None if instead_of.is_some() => {
            let message = "names a decision, but the conflict is not settled; leave it out";
            Err(invalid("instead_of", message.to_owned()))
        }
        None => Ok(()),
        Some(settled) if may_replace(settled.decision) && instead_of == Some(settled.decision) => {
            Ok(())
        }
        Some(settled) => Err(Refusal::Decided {
            what: "conflict",
            decision: format!("settled as {}", settled.decision),
            by: Some(settled.principal.clone()),
            at: settled.at,
        }),
    }
}

/// Whether a decision may be replaced; an adopted value is the desired one.
const fn may_replace(decision: ConflictDecision) -> bool {
    match decision {
        ConflictDecision::Ours | ConflictDecision::Ignore => true,
        ConflictDecision::Adopt => false,
    }
}

/// Checks until when a decision is to hold.
fn check_end(
    decision: ConflictDecision,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Refusal> {
    match (decision, until) {
        (_, None) => Ok(()),
        (ConflictDecision::Adopt, Some(_)) => {
            let message = "is not possible with `adopt`: the value becomes the desired one";
            Err(invalid("for_hours", message.to_owned()))
        }
        (ConflictDecision::Ours | ConflictDecision::Ignore, Some(until)) if until <= now => {
            Err(invalid("for_hours", "must be at least one hour".to_owned()))
        }
        (ConflictDecision::Ours | ConflictDecision::Ignore, Some(_)) => Ok(()),
    }
}

/// The open divergence of the field of a conflict.
async fn find_standing(
    write: &mut Write<'_>,
    of: &Conflict,
) -> Result<Option<DivergenceRecord>, Error> {
    let FieldRef { key, field } = &of.at;
    let statement = format!(
        "select {COLUMNS} from divergences d
         where d.subject_id = $1 and d.cluster_id = $2 and d.kind = $3 and d.namespace = $4
           and d.name = $5 and d.field = $6 and d.ended_at is null and d.gone_at is null"
    );
    let row = sqlx::query(AssertSqlSafe(statement))
        .bind(unit_uuid(of.unit))
        .bind(of.cluster.uuid())
        .bind(key.kind.as_str())
        .bind(&key.namespace)
        .bind(&key.name)
        .bind(field)
        .fetch_optional(&mut *write.tx)
        .await?;
    row.as_ref().map(record).transpose()
}
