//! Projections can be rebuilt: compares what is stored with what its stored inputs give.

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::status::Inputs;
use trueup_rules::RULES_VERSION;
use trueup_rules::status::project;
use uuid::Uuid;

use crate::db::row::{json, read_json, unit, unit_uuid};
use crate::{App, Error};

/// What became of one projection that was computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// What it is about.
    pub unit: Unit,
    /// How it compares.
    pub verdict: Comparison,
}

/// How a projection compares with what its inputs give now.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Byte for byte the same.
    Same,
    /// It was projected by rules of this older version, which may have said otherwise.
    Older(i32),
    /// Nothing was observed yet, so nothing was computed.
    Unobserved,
    /// It is not what its inputs say.
    Different {
        /// What is stored.
        stored: Value,
        /// What the inputs give.
        rebuilt: Value,
    },
}

impl App {
    /// Computes a page of the org's projections again, in the order of their units and after one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn rebuild_projections(
        &self,
        org: OrgId,
        after: Option<Unit>,
        limit: i64,
    ) -> Result<Vec<Rebuilt>, Error> {
        type Columns = (String, Uuid, Json<Value>, Option<Json<Value>>, jiff_sqlx::Timestamp, i32);
        let mut tx = self.begin(org).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select unit_kind, unit_id, status, inputs, as_of, rules_version from statuses
             where org_id = trueup_org() and unit_id > $1 order by unit_id limit $2",
        )
        .bind(after.map_or(Uuid::nil(), unit_uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        rows.into_iter()
            .map(|(kind, id, Json(stored), inputs, as_of, version)| {
                let verdict = match inputs {
                    None => Comparison::Unobserved,
                    Some(_) if version != RULES_VERSION => Comparison::Older(version),
                    Some(inputs) => {
                        let inputs: Inputs = read_json("inputs", inputs)?;
                        let Json(rebuilt) = json(&project(&inputs, as_of.to_jiff()));
                        // The same text: equal values could still be written in another way.
                        let bytes = |value: &Value| serde_json::to_vec(value).unwrap_or_default();
                        if bytes(&rebuilt) == bytes(&stored) {
                            Comparison::Same
                        } else {
                            Comparison::Different { stored, rebuilt }
                        }
                    }
                };
                Ok(Rebuilt { unit: unit(&kind, id), verdict })
            })
            .collect()
    }
}
