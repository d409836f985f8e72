//! Plans: priced sizes, the same for every org.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;

use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::{App, Error};

impl App {
    /// Every plan with the price that holds now, including retired ones.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_plans(&self, now: Timestamp) -> Result<Vec<Plan>, Error> {
        let mut tx = self.begin_at(PLATFORM, now).await?;
        all(&mut tx).await
    }
}

/// Every plan with the price that holds at the time of the transaction.
pub(crate) async fn all(tx: &mut Tx) -> Result<Vec<Plan>, Error> {
    let rows: Vec<(Json<Value>, bool)> = sqlx::query_as(
        "select body, retired from plans
         order by retired, (body #>> '{hourly,micros}')::bigint, name",
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(plan).collect()
}

/// A plan with the price that holds at the time of the transaction.
pub(crate) async fn find(tx: &mut Tx, name: Option<&Name>) -> Result<Option<Plan>, Error> {
    let Some(name) = name else { return Ok(None) };
    let row: Option<(Json<Value>, bool)> =
        sqlx::query_as("select body, retired from plans where name = $1")
            .bind(name.as_str())
            .fetch_optional(&mut **tx)
            .await?;
    row.map(plan).transpose()
}

/// Reads a plan from its columns.
pub(crate) fn plan((body, retired): (Json<Value>, bool)) -> Result<Plan, Error> {
    let plan: Plan = read_json("plan", body)?;
    Ok(Plan { retired, ..plan })
}

/// The stored body of a plan: all of it but the price, which has versions.
pub(crate) fn body(plan: &Plan) -> Json<Value> {
    let mut body = json(plan);
    if let Value::Object(fields) = &mut body.0 {
        fields.remove("hourly");
        fields.remove("disk_gib_hourly_micros");
    }
    body
}
