//! Templates: the same for every org, published by operators.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::event::Fact;
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::template::{Deprecated, Template, TemplateRef};
use trueup_rules::admit::template::{check, follows};
use trueup_rules::admit::{FieldError, Refused};

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::door::{Refusal, RequestContext, idempotency};
use crate::{App, Error, event};

/// A version's body, when it was deprecated, and what to use instead.
type Row = (Json<Value>, Option<jiff_sqlx::Timestamp>, Option<String>);

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
        let rows: Vec<Row> = sqlx::query_as(
            "select body, deprecated_at, instead from templates where name = $1 order by version",
        )
        .bind(name)
        .fetch_all(self.pool())
        .await?;
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

    /// Publishes the next version of a template.
    ///
    /// # Errors
    /// The rules refuse it, it is not the next version, or the database cannot be reached.
    pub async fn publish_template(
        &self,
        template: &Template,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let mut errors = check(template);
        let mut tx = self.begin(PLATFORM).await?;
        if idempotency::find(&mut tx, context, now).await?.is_some() {
            return Ok(());
        }
        let versions = self.list_template_versions(template.name.as_str()).await?;
        // A version that is not the next one is refused below, with the expected number.
        if let Some(before) = versions.iter().rfind(|one| one.version < template.version) {
            errors.extend(follows(before, template));
        }
        if !errors.is_empty() {
            return Err(Refusal::Refused(Refused::Invalid(errors)));
        }
        // If two publish the same version concurrently, the primary key lets only one through.
        let published = sqlx::query(
            "insert into templates (name, version, body, published_at, published_by)
             select $1, $2, $3, $4, $5
             where $2 = (select coalesce(max(version), 0) + 1 from templates where name = $1)
             on conflict do nothing",
        )
        .bind(template.name.as_str())
        .bind(version(template.version))
        .bind(json(template))
        .bind(sql(now))
        .bind(attribution(context))
        .execute(&mut *tx)
        .await?;
        if published.rows_affected() == 1 {
            let reference = TemplateRef { name: template.name.clone(), version: template.version };
            let principal = context.principal.name.clone();
            let fact = Fact::TemplatePublished { template: reference.clone(), principal };
            event::record_of_org(&mut tx, PLATFORM, fact, context, now).await?;
            idempotency::record(&mut tx, context, &reference.to_string(), now).await?;
            self.end(tx).await?;
            return Ok(());
        }
        let next = self.next_version(&template.name).await?;
        let message = format!(
            "must be {next}, the next version of `{}`; published versions never change",
            template.name
        );
        let field_error = FieldError { field: "version".to_owned(), message };
        Err(Refusal::Refused(Refused::Invalid(vec![field_error])))
    }

    /// Deprecates a version: it takes no new services, existing ones keep running.
    ///
    /// # Errors
    /// There is no such version, or the database cannot be reached.
    pub async fn deprecate_template(
        &self,
        wanted: &TemplateRef,
        instead: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Template, Refusal> {
        let mut tx = self.begin(PLATFORM).await?;
        let row: Option<Row> = sqlx::query_as(
            "update templates set deprecated_at = coalesce(deprecated_at, $3),
                                  deprecated_by = $4, instead = $5
             where name = $1 and version = $2 returning body, deprecated_at, instead",
        )
        .bind(wanted.name.as_str())
        .bind(version(wanted.version))
        .bind(sql(now))
        .bind(attribution(context))
        .bind(instead)
        .fetch_optional(&mut *tx)
        .await?;
        let deprecated = template(row.ok_or(Refusal::NotFound("template version"))?)?;
        let fact = Fact::TemplateDeprecated {
            template: wanted.clone(),
            instead: instead.to_owned(),
            principal: context.principal.name.clone(),
        };
        event::record_of_org(&mut tx, PLATFORM, fact, context, now).await?;
        self.end(tx).await?;
        Ok(deprecated)
    }

    async fn next_version(&self, name: &Name) -> Result<i32, Error> {
        let (next,): (i32,) =
            sqlx::query_as("select coalesce(max(version), 0) + 1 from templates where name = $1")
                .bind(name.as_str())
                .fetch_one(self.pool())
                .await?;
        Ok(next)
    }
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

fn template((body, deprecated_at, instead): Row) -> Result<Template, Error> {
    let mut template: Template = read_json("template", body)?;
    template.deprecated =
        deprecated_at.zip(instead).map(|(at, instead)| Deprecated { at: at.to_jiff(), instead });
    Ok(template)
}

/// Converts a version; one out of range was never published.
fn version(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The principal's name and token id, for the audit columns.
fn attribution(context: &RequestContext<'_>) -> String {
    format!("{} ({})", context.principal.name, context.principal.token)
}
