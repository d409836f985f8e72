//! Reads what the comparison of a service is made from.

use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use trueup_model::drift::DivergenceRecord;
use trueup_model::id::OrgId;
use trueup_model::spec::Spec;
use trueup_model::status::Inputs;

use crate::db::row::read_json;
use crate::service::{ServiceRow, find};
use crate::{App, Error, drift};

/// What a service is compared by.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonFacts {
    /// The service.
    pub row: ServiceRow,
    /// The spec of the newest generation that was completely applied.
    pub applied: Option<Spec>,
    /// What its status was projected from.
    pub inputs: Option<Inputs>,
    /// Its open divergences, in field order.
    pub divergences: Vec<DivergenceRecord>,
}

impl App {
    /// What a service is compared by; `None` if there is no such service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_comparison(
        &self,
        org: OrgId,
        project: &str,
        service: &str,
    ) -> Result<Option<ComparisonFacts>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(row) = find(&mut tx, project, service).await? else { return Ok(None) };
        let id = row.service.id.uuid();
        let (inputs, applied): (Option<Json<Value>>, Option<Json<Value>>) = sqlx::query_as(
            "select t.inputs, r.spec from statuses t
             left join releases r on r.service_id = t.subject_id and r.generation = $2
             where t.subject_kind = 'service' and t.subject_id = $1",
        )
        .bind(id)
        .bind(row.status.applied_generation)
        .fetch_one(&mut *tx)
        .await?;
        let statement = format!(
            "select {} from divergences d
             where d.subject_kind = 'service' and d.subject_id = $1 and d.ended_at is null
             order by d.kind, d.namespace, d.name, d.field",
            drift::COLUMNS
        );
        let rows = sqlx::query(AssertSqlSafe(statement)).bind(id).fetch_all(&mut *tx).await?;
        Ok(Some(ComparisonFacts {
            row,
            applied: applied.map(|spec| read_json("spec", spec)).transpose()?,
            inputs: inputs.map(|inputs| read_json("inputs", inputs)).transpose()?,
            divergences: rows.iter().map(drift::record).collect::<Result<_, _>>()?,
        }))
    }
}
