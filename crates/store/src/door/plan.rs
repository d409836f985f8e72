//! Creates and updates plans.

use jiff::Timestamp;
use trueup_model::event::{Fact, PlanChanged};
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::App;
use crate::db::row::json;

impl App {
    /// Creates or updates a plan; returns whether that changed anything.
    ///
    /// Services keep the resources they were accepted with until they are changed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn put_plan(
        &self,
        plan: &Plan,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        self.write(PLATFORM, context, now, |write| put(write, plan)).await
    }
}

async fn put(mut write: Write<'_>, plan: &Plan) -> Result<bool, Refusal> {
    let changed = sqlx::query(
        "insert into plans (name, body, retired) values ($1, $2, $3)
         on conflict (name) do update set body = $2, retired = $3
         where (plans.body, plans.retired) is distinct from ($2, $3)",
    )
    .bind(plan.name.as_str())
    .bind(json(plan))
    .bind(plan.retired)
    .execute(&mut *write.tx)
    .await?;
    let changed = changed.rows_affected() == 1;
    if changed {
        let fact = Fact::PlanChanged(PlanChanged {
            plan: plan.name.clone(),
            retired: plan.retired,
            principal: write.principal(),
        });
        write.record(fact).await?;
    }
    write.finish(changed).await
}
