//! Rebuilds projections from their stored inputs and compares them with what is stored.

use serde_json::Value;
use sqlx::FromRow;
use sqlx::types::Json;
use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::status::Inputs;
use trueup_rules::RULES_VERSION;
use trueup_rules::status::project;
use uuid::Uuid;

use crate::db::row::{json, read_json, unit, unit_uuid};
use crate::{App, Error};

/// A projection that was computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// Its unit.
    pub unit: Unit,
    /// How it compares with the stored one.
    pub comparison: Comparison,
}

/// How a stored projection compares with the rebuilt one.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Byte for byte the same.
    Same,
    /// Computed by this other version of the rules, which may give another result.
    Older(i32),
    /// Nothing was observed yet, so nothing was computed.
    Unobserved,
    /// It differs from what its inputs give.
    Different {
        /// What is stored.
        stored: Value,
        /// What the inputs give.
        rebuilt: Value,
    },
}

impl App {
    /// Rebuilds a page of the org's projections, in the order of their units.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn rebuild_projections(
        &self,
        org: OrgId,
        after: Option<Unit>,
        limit: i64,
    ) -> Result<Vec<Rebuilt>, Error> {
        #[derive(FromRow)]
        struct Columns {
            subject_kind: String,
            subject_id: Uuid,
            status: Json<Value>,
            inputs: Option<Json<Value>>,
            as_of: jiff_sqlx::Timestamp,
            rules_version: i32,
        }
        let mut tx = self.begin(org).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select subject_kind, subject_id, status, inputs, as_of, rules_version from statuses
             where org_id = trueup_org() and subject_id > $1 order by subject_id limit $2",
        )
        .bind(after.map_or(Uuid::nil(), unit_uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        rows.into_iter()
            .map(|row| {
                let Json(stored) = row.status;
                let comparison = match row.inputs {
                    None => Comparison::Unobserved,
                    Some(_) if row.rules_version != RULES_VERSION => {
                        Comparison::Older(row.rules_version)
                    }
                    Some(inputs) => {
                        let inputs: Inputs = read_json("inputs", inputs)?;
                        let Json(rebuilt) = json(&project(&inputs, row.as_of.to_jiff()));
                        // Compare bytes: equal values could still be serialized differently.
                        let bytes = |value: &Value| serde_json::to_vec(value).unwrap_or_default();
                        if bytes(&rebuilt) == bytes(&stored) {
                            Comparison::Same
                        } else {
                            Comparison::Different { stored, rebuilt }
                        }
                    }
                };
                Ok(Rebuilt { unit: unit(&row.subject_kind, row.subject_id)?, comparison })
            })
            .collect()
    }
}
