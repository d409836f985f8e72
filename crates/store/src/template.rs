//! Templates: the same for every org.

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::template::{Template, TemplateRef};

use crate::pool::Tx;
use crate::row::read_json;
use crate::{App, Error};

impl App {
    /// Every published template version.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_templates(&self) -> Result<Vec<Template>, Error> {
        let rows: Vec<(Json<Value>,)> =
            sqlx::query_as("select body from templates order by name, version")
                .fetch_all(self.pool())
                .await?;
        rows.into_iter().map(|(body,)| read_json("template", body)).collect()
    }
}

pub(crate) async fn find(tx: &mut Tx, template: &TemplateRef) -> Result<Option<Template>, Error> {
    let row: Option<(Json<Value>,)> =
        sqlx::query_as("select body from templates where name = $1 and version = $2")
            .bind(template.name.as_str())
            .bind(i32::try_from(template.version).unwrap_or(i32::MAX))
            .fetch_optional(&mut **tx)
            .await?;
    row.map(|(body,)| read_json("template", body)).transpose()
}
