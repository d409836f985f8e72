//! Decides about divergences: adopts the live value, or rejects the proposal to adopt it.
//!
//! An adoption is an accepted change of the service like any other: a parameter gets the live value.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use trueup_model::drift::{Divergence, DivergenceRecord, DivergenceState};
use trueup_model::event::{DriftAdopted, DriftRejected, Fact};
use trueup_model::id::{DivergenceId, OrgId, ServiceId};
use trueup_model::order::Unit;
use trueup_model::service::Service;
use trueup_model::wake::Lane;
use trueup_rules::admit::variable::Entries;
use trueup_rules::admit::{AdmissionRequest, wanted_plan};
use trueup_rules::drift::adopt::{self, AdoptContext, Adoption};

use super::config::{check_generated_secrets, invalid};
use super::conflict::settle_adopted;
use super::generation::next;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext, system_principal};
use crate::db::clock::sql;
use crate::drift::{COLUMNS, DivergenceRow, POLICY, find, record};
use crate::variable::entries;
use crate::work::wake::generation;
use crate::{App, Error, plan, template};

impl App {
    /// Adopts the live value of a divergence: it becomes the desired one, as a new generation.
    ///
    /// `if_generation` is the service's generation that the caller read, `seen` the live value.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    #[expect(clippy::too_many_arguments, reason = "what to adopt, and what the caller knew of it")]
    pub async fn adopt_divergence(
        &self,
        org: OrgId,
        id: DivergenceId,
        if_generation: Option<i64>,
        seen: Option<&Value>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<DivergenceRow>, Refusal> {
        self.write(org, context, now, |write| adopt(write, id, if_generation, seen)).await
    }

    /// Adopts the live value of a divergence because its policy says so without approval.
    ///
    /// It must have been seen with this generation, which must be the current one.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn adopt_by_policy(
        &self,
        org: OrgId,
        id: DivergenceId,
        generation: i64,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let principal = system_principal(org, POLICY);
        let context = RequestContext::system(&principal);
        let adopted =
            self.write(org, &context, now, |write| adopt(write, id, Some(generation), None));
        adopted.await.map(|_| ())
    }

    /// Rejects the proposal to adopt the value of a divergence. A value that was kept is reverted.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn reject_divergence(
        &self,
        org: OrgId,
        id: DivergenceId,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<DivergenceRow>, Refusal> {
        self.write(org, context, now, |write| reject(write, id)).await
    }
}

async fn adopt(
    mut write: Write<'_>,
    id: DivergenceId,
    if_generation: Option<i64>,
    seen: Option<&Value>,
) -> Result<Accepted<DivergenceRow>, Refusal> {
    let repeated = write.earlier().await?.is_some();
    let found = require(&mut write, id).await?;
    if repeated {
        return Ok(Accepted { row: found, changed: false });
    }
    check_undecided(&found.record)?;
    let next = adopt_value(&mut write, &found.record, if_generation, seen).await?;
    write.remember(&id.to_string()).await?;
    let row = require(&mut write, id).await?;
    write.reserve_and_wake(&next).await?;
    write.finish(Accepted { row, changed: true }).await
}

/// Records the next generation of the service with the live value of a divergence, and settles a
/// conflict about the field; returns that generation, which is not woken yet.
///
/// A value that another writer set after the caller looked is not adopted.
pub(super) async fn adopt_value(
    write: &mut Write<'_>,
    of: &DivergenceRecord,
    if_generation: Option<i64>,
    seen: Option<&Value>,
) -> Result<Service, Refusal> {
    let Unit::Service(service) = of.unit else {
        let message = "belongs to an object of the project itself, which is always enforced";
        return Err(invalid("divergence", message.to_owned()));
    };
    let current = write.lock_for_change(service, if_generation).await?;
    // Read again: only under the lock of the service it cannot be adopted by another request.
    let DivergenceRecord { divergence, .. } = lock(write, of.id).await?;
    if seen.is_some_and(|seen| *seen != divergence.live) {
        let message = "is not the live value any more: another writer changed it since you looked; look \
                       again with `trueup drift`, then decide";
        return Err(invalid("live", message.to_owned()));
    }
    let Adoption { parameter, parameters, spec, .. } = decide(write, &current, &divergence).await?;
    let undo = current.generation;
    let next = Service { parameters, spec, ..next(current, write.now) };
    check_generated_secrets(&mut write.tx, &next).await?;
    write.record_generation(&next, "adopt").await?;
    end(write, of.id, DivergenceState::Adopted).await?;
    let fact = Fact::DriftAdopted(DriftAdopted {
        divergence: of.id,
        key: divergence.key,
        field: divergence.field,
        parameter,
        undo,
        principal: write.principal(),
    });
    write.record_about(of.unit, next.generation, fact).await?;
    settle_adopted(write, of, next.generation).await?;
    Ok(next)
}

/// Finds the parameter that gets the live value.
async fn decide(
    write: &mut Write<'_>,
    current: &Service,
    divergence: &Divergence,
) -> Result<Adoption, Refusal> {
    let tx = &mut write.tx;
    let template = template::find(tx, &current.template).await?;
    let again = AdmissionRequest::again(current);
    let plan = plan::find(tx, wanted_plan(&again, template.as_ref())).await?;
    let all = entries(tx, &[current.project.uuid()]).await?;
    let none = Entries::default();
    let entries_of = |owner: Option<ServiceId>| all.get(&(current.project, owner)).unwrap_or(&none);
    let context = AdoptContext {
        current,
        template: template.as_ref(),
        plan: plan.as_ref(),
        project_entries: entries_of(None),
        service_entries: entries_of(Some(current.id)),
    };
    adopt::adopt(divergence, context).map_err(|refusal| Refusal::Refused(refusal.into()))
}

async fn reject(
    mut write: Write<'_>,
    id: DivergenceId,
) -> Result<Accepted<DivergenceRow>, Refusal> {
    if write.earlier().await?.is_some() {
        let row = require(&mut write, id).await?;
        return Ok(Accepted { row, changed: false });
    }
    let found = lock(&mut write, id).await?;
    let Divergence { key, field, state, .. } = found.divergence;
    if state != DivergenceState::Proposed {
        let message = format!("is not proposed for adoption: its state is {state}");
        return Err(invalid("divergence", message));
    }
    end(&mut write, id, DivergenceState::Rejected).await?;
    let generation = generation(&mut write.tx, found.unit, found.org).await?.unwrap_or_default();
    let principal = write.principal();
    let fact = Fact::DriftRejected(DriftRejected { divergence: id, key, field, principal });
    write.record_about(found.unit, generation, fact).await?;
    let row = require(&mut write, id).await?;
    if row.gone_at.is_none() {
        write.wake(found.unit, found.cluster, Lane::UserChange).await?;
    }
    write.finish_as(&id.to_string(), Accepted { row, changed: true }).await
}

async fn require(write: &mut Write<'_>, id: DivergenceId) -> Result<DivergenceRow, Refusal> {
    find(&mut write.tx, id).await?.ok_or(Refusal::NotFound("divergence"))
}

/// Locks a divergence about which something is left to decide.
async fn lock(write: &mut Write<'_>, id: DivergenceId) -> Result<DivergenceRecord, Refusal> {
    let statement =
        format!("select {COLUMNS} from divergences d where d.id = $1 for no key update");
    let row = sqlx::query(AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut *write.tx)
        .await?;
    let found = record(&row.ok_or(Refusal::NotFound("divergence"))?)?;
    check_undecided(&found)?;
    Ok(found)
}

/// Refuses to decide about a divergence that ended: says how, when and by whom.
fn check_undecided(of: &DivergenceRecord) -> Result<(), Refusal> {
    match of.ended_at {
        None => Ok(()),
        Some(at) => Err(Refusal::Decided {
            what: "divergence",
            decision: of.divergence.state.to_string(),
            by: of.decided_by.clone(),
            at,
        }),
    }
}

/// Ends a divergence. An adopted value is no difference any more; a rejected one still is.
async fn end(write: &mut Write<'_>, id: DivergenceId, state: DivergenceState) -> Result<(), Error> {
    let gone_at = (state == DivergenceState::Adopted).then(|| sql(write.now));
    sqlx::query(
        "update divergences set state = $2, ended_at = $3, decided_by = $4,
                gone_at = coalesce(gone_at, $5)
         where id = $1",
    )
    .bind(id.uuid())
    .bind(state.into_str())
    .bind(sql(write.now))
    .bind(write.principal_name())
    .bind(gone_at)
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}
