//! Sets variables.

use jiff::Timestamp;
use trueup_model::event::{Fact, VariableSet};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::variable::{Scope, Variable, VariableName};
use trueup_rules::admit::Refused;
use trueup_rules::admit::variable::check_value;

use super::config::{EntryRequest, lock, record_change};
use super::entry::{EntryKind, check};
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::variable::{list, variable};
use crate::{App, Error};

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
        self.write(org, context, now, |write| set(write, wanted, value)).await
    }
}

async fn set(
    mut write: Write<'_>,
    wanted: &EntryRequest<'_>,
    value: &str,
) -> Result<Accepted<Variable>, Refusal> {
    let locked = lock(&mut write, wanted.project, wanted.service).await?;
    let before = check(&mut write.tx, &locked, wanted, EntryKind::Variable).await?;
    let Some((row, fact)) = set_value(&mut write, locked.scope, wanted.name, value).await? else {
        let all = list(&mut write.tx, locked.scope).await?;
        let found = all.into_iter().find(|variable| variable.name == *wanted.name);
        let row = found.ok_or(Refusal::NotFound("variable"))?;
        return Ok(Accepted { row, changed: false });
    };
    record_change(&mut write, &locked, &before, vec![fact]).await?;
    write.finish(Accepted { row, changed: true }).await
}

/// Sets the value, with a new version; `None` if it has this value already.
///
/// Returns the fact to record, too.
pub(super) async fn set_value(
    write: &mut Write<'_>,
    scope: Scope,
    name: &VariableName,
    value: &str,
) -> Result<Option<(Variable, Fact)>, Error> {
    let row = sqlx::query(
        "insert into variables as v
             (org_id, project_id, service_id, name, value, version, set_by, set_at)
         values ($1, $2, $3, $4, $5, 1, $6, $7)
         on conflict on constraint variables_name_key do update
             set value = $5, version = v.version + 1, set_by = $6, set_at = $7
             where v.value is distinct from $5
         returning name, value, version, set_by, set_at",
    )
    .bind(write.org().uuid())
    .bind(scope.project.uuid())
    .bind(scope.service.map(ServiceId::uuid))
    .bind(name.as_str())
    .bind(value)
    .bind(write.principal_name())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let variable = variable(&row)?;
    let fact = Fact::VariableSet(VariableSet {
        name: variable.name.to_string(),
        version: variable.version,
        principal: write.principal(),
    });
    Ok(Some((variable, fact)))
}
