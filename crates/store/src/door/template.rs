//! Publishes and deprecates templates.

use jiff::Timestamp;
use trueup_model::event::{Fact, TemplateDeprecated, TemplatePublished};
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::template::{Template, TemplateRef};
use trueup_rules::admit::Refused;
use trueup_rules::admit::template::{check, follows};

use super::config::invalid;
use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::template::{Row, template, version, versions};
use crate::{App, Error};

impl App {
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
        self.write(PLATFORM, context, now, |write| publish(write, template)).await
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
        self.write(PLATFORM, context, now, |write| deprecate(write, wanted, instead)).await
    }
}

async fn publish(mut write: Write<'_>, template: &Template) -> Result<(), Refusal> {
    if write.earlier().await?.is_some() {
        return Ok(());
    }
    let mut errors = check(template);
    let versions = versions(&mut write.tx, &template.name).await?;
    // A version that is not the next one is refused below, with the expected number.
    if let Some(before) = versions.iter().rfind(|one| one.version < template.version) {
        errors.extend(follows(before, template));
    }
    if !errors.is_empty() {
        return Err(Refusal::Refused(Refused::Invalid(errors)));
    }
    if !insert(&mut write, template).await? {
        let next = next_version(&mut write.tx, &template.name).await?;
        let message = format!(
            "must be {next}, the next version of `{}`; published versions never change",
            template.name
        );
        return Err(invalid("version", message));
    }
    let reference = TemplateRef { name: template.name.clone(), version: template.version };
    let subject = reference.to_string();
    let fact = Fact::TemplatePublished(TemplatePublished {
        template: reference,
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish_as(&subject, ()).await
}

/// Inserts a version; returns false if it is not the next one.
///
/// If two publish the same version concurrently, the primary key lets only one through.
async fn insert(write: &mut Write<'_>, template: &Template) -> Result<bool, Error> {
    let published = sqlx::query(
        "insert into templates (name, version, body, published_at, published_by)
         select $1, $2, $3, $4, $5
         where $2 = (select coalesce(max(version), 0) + 1 from templates where name = $1)
         on conflict do nothing",
    )
    .bind(template.name.as_str())
    .bind(version(template.version))
    .bind(json(template))
    .bind(sql(write.now))
    .bind(attribution(write.context))
    .execute(&mut *write.tx)
    .await?;
    Ok(published.rows_affected() == 1)
}

async fn next_version(tx: &mut Tx, name: &Name) -> Result<i32, Error> {
    let (next,): (i32,) =
        sqlx::query_as("select coalesce(max(version), 0) + 1 from templates where name = $1")
            .bind(name.as_str())
            .fetch_one(&mut **tx)
            .await?;
    Ok(next)
}

async fn deprecate(
    mut write: Write<'_>,
    wanted: &TemplateRef,
    instead: &str,
) -> Result<Template, Refusal> {
    let row: Option<Row> = sqlx::query_as(
        "update templates set deprecated_at = coalesce(deprecated_at, $3),
                              deprecated_by = $4, instead = $5
         where name = $1 and version = $2 returning body, deprecated_at, instead",
    )
    .bind(wanted.name.as_str())
    .bind(version(wanted.version))
    .bind(sql(write.now))
    .bind(attribution(write.context))
    .bind(instead)
    .fetch_optional(&mut *write.tx)
    .await?;
    let deprecated = template(row.ok_or(Refusal::NotFound("template version"))?)?;
    let fact = Fact::TemplateDeprecated(TemplateDeprecated {
        template: wanted.clone(),
        instead: instead.to_owned(),
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish(deprecated).await
}

/// The principal's name and token id, for the audit columns.
fn attribution(context: &RequestContext<'_>) -> String {
    format!("{} ({})", context.principal.name, context.principal.id)
}
