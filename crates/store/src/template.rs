//! Templates: the same for every org, published by operators.

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::name::Name;
use trueup_model::template::{Deprecated, Template, TemplateRef};

use crate::db::pool::Tx;
use crate::db::row::read_json;
use crate::{App, Error};

/// SQL: the versions of the template `$1`, the oldest first.
const VERSIONS: &str =
    "select body, deprecated_at, instead from templates where name = $1 order by version";

/// A version's body, when it was deprecated, and what to use instead.
pub(crate) type Row = (Json<Value>, Option<jiff_sqlx::Timestamp>, Option<String>);

impl App {
    /// Every published template version.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_templates(&self) -> Result<Vec<Template>, Error> {
        let rows: Vec<Row> = sqlx::query_as(
            "select body, deprecated_at, instead from templates order by name, version",
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(template).collect()
    }

    /// Every version of one template, the oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_template_versions(&self, name: &str) -> Result<Vec<Template>, Error> {
        let rows: Vec<Row> = sqlx::query_as(VERSIONS).bind(name).fetch_all(self.pool()).await?;
        rows.into_iter().map(template).collect()
    }

    /// One version.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_template(&self, wanted: &TemplateRef) -> Result<Option<Template>, Error> {
        let row: Option<Row> = sqlx::query_as(
            "select body, deprecated_at, instead from templates where name = $1 and version = $2",
        )
        .bind(wanted.name.as_str())
        .bind(version(wanted.version))
        .fetch_optional(self.pool())
        .await?;
        row.map(template).transpose()
    }
}

/// Every version of one template, the oldest first, as the transaction sees them.
pub(crate) async fn versions(tx: &mut Tx, name: &Name) -> Result<Vec<Template>, Error> {
    let rows: Vec<Row> = sqlx::query_as(VERSIONS).bind(name.as_str()).fetch_all(&mut **tx).await?;
    rows.into_iter().map(template).collect()
}

pub(crate) async fn find(tx: &mut Tx, wanted: &TemplateRef) -> Result<Option<Template>, Error> {
    let row: Option<Row> = sqlx::query_as(
        "select body, deprecated_at, instead from templates where name = $1 and version = $2",
    )
    .bind(wanted.name.as_str())
    .bind(version(wanted.version))
    .fetch_optional(&mut **tx)
    .await?;
    row.map(template).transpose()
}

pub(crate) fn template((body, deprecated_at, instead): Row) -> Result<Template, Error> {
    let mut template: Template = read_json("template", body)?;
    template.deprecated =
        deprecated_at.zip(instead).map(|(at, instead)| Deprecated { at: at.to_jiff(), instead });
    Ok(template)
}

/// Converts a version; one out of range was never published.
pub(crate) fn version(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
