//! Shared by variables and secrets: checks before an entry is set, and deletion.

use jiff::Timestamp;
use trueup_model::event::{Fact, SecretDeleted, VariableDeleted};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::variable::{Scope, VariableName};

use super::config::{
    EntryRequest, Locked, check_kind, check_limit, current_entries, find_collisions, invalid, lock,
    own_entries, record_change,
};
use super::write::Write;
use super::{Refusal, RequestContext};
use crate::App;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::variable::AllEntries;

/// Whether an entry is a variable or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A variable.
    Variable,
    /// A secret.
    Secret,
}

impl EntryKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Secret => "secret",
        }
    }

    /// Clears the value and keeps the row, so that versions keep increasing.
    const fn deletion(self) -> &'static str {
        match self {
            Self::Variable => {
                "update variables set value = null, version = version + 1, set_by = $4, set_at = $5
                 where project_id = $1 and service_id is not distinct from $2 and name = $3
                   and value is not null
                 returning version"
            }
            Self::Secret => {
                "update secrets set nonce = null, sealed = null, version = version + 1,
                                    set_by = $4, set_at = $5
                 where project_id = $1 and service_id is not distinct from $2 and name = $3
                   and sealed is not null
                 returning version"
            }
        }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::Variable => {
                "select version from variables
                 where project_id = $1 and service_id is not distinct from $2 and name = $3
                   and value is not null"
            }
            Self::Secret => {
                "select version from secrets
                 where project_id = $1 and service_id is not distinct from $2 and name = $3
                   and sealed is not null"
            }
        }
    }

    const fn deleted(self, name: String, version: i64, principal: String) -> Fact {
        match self {
            Self::Variable => Fact::VariableDeleted(VariableDeleted { name, version, principal }),
            Self::Secret => Fact::SecretDeleted(SecretDeleted { name, version, principal }),
        }
    }
}

impl App {
    /// Deletes a variable or a secret; a secret's ciphertext is erased in the same transaction.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_entry(
        &self,
        org: OrgId,
        kind: EntryKind,
        wanted: &EntryRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.write(org, context, now, |write| delete(write, kind, wanted)).await
    }
}

async fn delete(
    mut write: Write<'_>,
    kind: EntryKind,
    wanted: &EntryRequest<'_>,
) -> Result<(), Refusal> {
    let locked = lock(&mut write, wanted.project, wanted.service).await?;
    check_version(&mut write.tx, &locked, wanted, kind).await?;
    let before = current_entries(&mut write.tx, &locked).await?;
    let fact = delete_value(&mut write, locked.scope, kind, wanted.name).await?;
    record_change(&mut write, &locked, &before, vec![fact]).await?;
    write.finish(()).await
}

/// Clears the value of an entry. Returns the fact to record.
pub(super) async fn delete_value(
    write: &mut Write<'_>,
    scope: Scope,
    kind: EntryKind,
    name: &VariableName,
) -> Result<Fact, Refusal> {
    let gone: Option<(i64,)> = sqlx::query_as(kind.deletion())
        .bind(scope.project.uuid())
        .bind(scope.service.map(ServiceId::uuid))
        .bind(name.as_str())
        .bind(write.principal_name())
        .bind(sql(write.now))
        .fetch_optional(&mut *write.tx)
        .await?;
    let (version,) = gone.ok_or(Refusal::NotFound(kind.word()))?;
    Ok(kind.deleted(name.to_string(), version, write.principal()))
}

/// Checks version, kind, limit and collisions before an entry is set.
///
/// Returns the current entries of the project.
pub(super) async fn check(
    tx: &mut Tx,
    of: &Locked,
    wanted: &EntryRequest<'_>,
    kind: EntryKind,
) -> Result<AllEntries, Refusal> {
    check_version(tx, of, wanted, kind).await?;
    let before = current_entries(tx, of).await?;
    let own = own_entries(&before, of);
    check_kind(&own, wanted.name, kind).map_err(|message| invalid("name", message))?;
    check_limit(&own, wanted.name)?;
    if let Some(message) = find_collisions(tx, of, &[wanted.name]).await?.remove(wanted.name) {
        return Err(invalid("name", message));
    }
    Ok(before)
}

/// Checks the caller's version precondition.
async fn check_version(
    tx: &mut Tx,
    of: &Locked,
    wanted: &EntryRequest<'_>,
    kind: EntryKind,
) -> Result<(), Refusal> {
    let Some(seen) = wanted.if_version else { return Ok(()) };
    let current: Option<(i64,)> = sqlx::query_as(kind.version())
        .bind(of.scope.project.uuid())
        .bind(of.scope.service.map(ServiceId::uuid))
        .bind(wanted.name.as_str())
        .fetch_optional(&mut **tx)
        .await?;
    let current = current.map_or(0, |(version,)| version);
    if current == seen { Ok(()) } else { Err(Refusal::OtherVersion { current }) }
}
