//! Creates and updates plans, and publishes their prices.

use jiff::Timestamp;
use trueup_model::event::{Fact, PlanChanged, PublishedPrice};
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;
use trueup_rules::admit::Refused;
use trueup_rules::rate::publish::begins_at;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::pool::Tx;
use crate::{App, Error, plan, price};

impl App {
    /// Creates or updates a plan; returns it with the price that holds now.
    ///
    /// Another price is a new version from `effective_from` on, or from now on without it. Services
    /// keep the resources they were accepted with until they are changed.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_plan(
        &self,
        plan: &Plan,
        effective_from: Option<Timestamp>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Plan>, Refusal> {
        self.write(PLATFORM, context, now, |write| put(write, plan, effective_from)).await
    }
}

async fn put(
    mut write: Write<'_>,
    plan: &Plan,
    effective_from: Option<Timestamp>,
) -> Result<Accepted<Plan>, Refusal> {
    let has_new_body = upsert(&mut write.tx, plan).await?;
    let price = publish(&mut write, plan, effective_from).await?;
    let changed = has_new_body || price.is_some();
    if changed {
        let fact = Fact::PlanChanged(PlanChanged {
            plan: plan.name.clone(),
            retired: plan.retired,
            principal: write.principal(),
            price,
        });
        write.record(fact).await?;
    }
    let row = match effective_from {
        None => plan.clone(),
        // Its price may begin later, or have begun long ago.
        Some(_) => {
            let found = plan::find(&mut write.tx, Some(&plan.name)).await?;
            found.ok_or(Refusal::NotFound("plan"))?
        }
    };
    write.finish(Accepted { row, changed }).await
}

/// Writes everything but the price; returns whether that changed anything.
///
/// Also locks the plan, whether or not it changes, so that its prices are published one by one.
async fn upsert(tx: &mut Tx, plan: &Plan) -> Result<bool, Error> {
    let changed = sqlx::query(
        "insert into plan_bodies (name, body, retired) values ($1, $2, $3)
         on conflict (name) do update set body = $2, retired = $3
         where (plan_bodies.body, plan_bodies.retired) is distinct from ($2, $3)",
    )
    .bind(plan.name.as_str())
    .bind(plan::body(plan))
    .bind(plan.retired)
    .execute(&mut **tx)
    .await?;
    Ok(changed.rows_affected() == 1)
}

/// Appends the plan's price, unless the plan has it.
async fn publish(
    write: &mut Write<'_>,
    plan: &Plan,
    effective_from: Option<Timestamp>,
) -> Result<Option<PublishedPrice>, Refusal> {
    let prices = price::of_plan(&mut write.tx, &plan.name).await?;
    let wanted = effective_from.map(stored);
    let begin = begins_at(&prices, plan, wanted, write.now)
        .map_err(|errors| Refusal::Refused(Refused::Invalid(errors)))?;
    let Some(from) = begin else { return Ok(None) };
    // A price that begins at once is published when it begins, also after a lost race.
    let created_at = if wanted.is_some() { write.now } else { from };
    let by = write.principal_name();
    let version = price::append(&mut write.tx, plan, from, created_at, by).await?;
    Ok(Some(PublishedPrice {
        version,
        hourly_micros: plan.hourly.micros,
        disk_gib_hourly_micros: plan.disk_gib_hourly_micros,
        currency: plan.hourly.currency,
        from,
    }))
}

/// The time as Postgres stores it: in microseconds.
fn stored(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
