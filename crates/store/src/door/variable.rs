//! Sets variables.

use jiff::Timestamp;
use trueup_model::event::Fact;
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::variable::Variable;
use trueup_rules::admit::Refused;
use trueup_rules::admit::variable::check_value;

use super::config::{EntryRequest, lock, record_change};
use super::entry::{EntryKind, check};
use super::race::retry_on_conflict;
use super::{Accepted, Refusal, RequestContext};
use crate::App;
use crate::db::clock::sql;
use crate::variable::variable;

impl App {
    /// Sets a variable. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn set_variable(
        &self,
        org: OrgId,
        wanted: &EntryRequest<'_>,
        value: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Variable>, Refusal> {
        check_value(value)
            .map_err(|field_error| Refusal::Refused(Refused::Invalid(vec![field_error])))?;
        retry_on_conflict(|| self.try_set_variable(org, wanted, value, context, now)).await
    }

    async fn try_set_variable(
        &self,
        org: OrgId,
        wanted: &EntryRequest<'_>,
        value: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Variable>, Refusal> {
        let mut tx = self.begin(org).await?;
        let locked = lock(&mut tx, wanted).await?;
        let before = check(&mut tx, &locked, wanted, EntryKind::Variable).await?;
        let row = sqlx::query(
            "insert into variables as v
                 (org_id, project_id, service_id, name, value, version, set_by, set_at)
             values ($1, $2, $3, $4, $5, 1, $6, $7)
             on conflict on constraint variables_name_key do update
                 set value = $5, version = v.version + 1, set_by = $6, set_at = $7
                 where v.value is distinct from $5
             returning name, value, version, set_by, set_at",
        )
        .bind(org.uuid())
        .bind(locked.scope.project.uuid())
        .bind(locked.scope.service.map(ServiceId::uuid))
        .bind(wanted.name.as_str())
        .bind(value)
        .bind(&context.principal.name)
        .bind(sql(now))
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else {
            drop(tx);
            return self.unchanged_variable(org, wanted).await;
        };
        let set = variable(&row)?;
        let fact = Fact::VariableSet {
            name: set.name.to_string(),
            version: set.version,
            principal: context.principal.name.clone(),
        };
        record_change(&mut tx, &locked, &before, fact, context, now).await?;
        self.end(tx).await?;
        Ok(Accepted { row: set, changed: true })
    }

    async fn unchanged_variable(
        &self,
        org: OrgId,
        wanted: &EntryRequest<'_>,
    ) -> Result<Accepted<Variable>, Refusal> {
        let all = self.list_variables(org, wanted.project, wanted.service).await?;
        let found = all.into_iter().flatten().find(|variable| variable.name == *wanted.name);
        // It was deleted in the meantime: the caller may retry.
        let row = found.ok_or(Refusal::NotFound("variable"))?;
        Ok(Accepted { row, changed: false })
    }
}
