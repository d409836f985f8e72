//! Plans: priced sizes, the same for every org.

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::name::Name;
use trueup_model::plan::Plan;

use crate::db::pool::Tx;
use crate::db::row::read_json;
use crate::{App, Error};

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
