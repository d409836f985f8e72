//! Plans: priced sizes, the same for every org.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::event::Fact;
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;

use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::door::RequestContext;
use crate::{App, Error, event};

impl App {
    /// Every plan, including retired ones.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_plans(&self) -> Result<Vec<Plan>, Error> {
        let rows: Vec<(Json<Value>, bool)> = sqlx::query_as(
            "select body, retired from plans
             order by retired, (body #>> '{hourly,micros}')::bigint, name",
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(plan).collect()
    }

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
    ) -> Result<bool, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let changed = sqlx::query(
            "insert into plans (name, body, retired) values ($1, $2, $3)
             on conflict (name) do update set body = $2, retired = $3
             where (plans.body, plans.retired) is distinct from ($2, $3)",
        )
        .bind(plan.name.as_str())
        .bind(json(plan))
        .bind(plan.retired)
        .execute(&mut *tx)
        .await?;
        let changed = changed.rows_affected() == 1;
        if changed {
            let fact = Fact::PlanChanged {
                plan: plan.name.clone(),
                retired: plan.retired,
                principal: context.principal.name.clone(),
            };
            event::record_of_org(&mut tx, PLATFORM, fact, context, now).await?;
        }
        self.end(tx).await?;
        Ok(changed)
    }
}

pub(crate) async fn find(tx: &mut Tx, name: Option<&Name>) -> Result<Option<Plan>, Error> {
    let Some(name) = name else { return Ok(None) };
    let row: Option<(Json<Value>, bool)> =
        sqlx::query_as("select body, retired from plans where name = $1")
            .bind(name.as_str())
            .fetch_optional(&mut **tx)
            .await?;
    row.map(plan).transpose()
}

fn plan((body, retired): (Json<Value>, bool)) -> Result<Plan, Error> {
    let plan: Plan = read_json("plan", body)?;
    Ok(Plan { retired, ..plan })
}
