//! Sets secrets. A value is encrypted before it reaches any statement.

use jiff::Timestamp;
use trueup_model::event::{Fact, SecretSet};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::order::SecretValue;
use trueup_model::secret::{Place, Secret, WrappedKey};
use trueup_model::variable::Scope;
use trueup_rules::admit::Refused;
use trueup_rules::admit::variable::check_value;
use trueup_rules::envelope::Encryptor;

use super::config::{EntryRequest, lock, record_change};
use super::entry::{EntryKind, check};
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::App;
use crate::db::clock::sql;
use crate::db::new_id::{entropy, fresh_key};
use crate::secret::{secret, wrapped};

/// A secret to set.
#[derive(Debug, Clone, Copy)]
pub struct SecretRequest<'a> {
    /// Its scope and name.
    pub entry: EntryRequest<'a>,
    /// Its value.
    pub value: &'a SecretValue,
    /// Encrypts the value.
    pub encryptor: &'a Encryptor,
}

impl App {
    /// Sets a secret. Always a new version: the old value cannot be read to compare.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn set_secret(
        &self,
        org: OrgId,
        wanted: &SecretRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Secret>, Refusal> {
        check_value(wanted.value.reveal())
            .map_err(|field_error| Refusal::Refused(Refused::Invalid(vec![field_error])))?;
        self.write(org, context, now, |write| set(write, wanted)).await
    }
}

async fn set(
    mut write: Write<'_>,
    wanted: &SecretRequest<'_>,
) -> Result<Accepted<Secret>, Refusal> {
    let entry = &wanted.entry;
    let locked = lock(&mut write, entry.project, entry.service).await?;
    let before = check(&mut write.tx, &locked, entry, EntryKind::Secret).await?;
    let row = store(&mut write, locked.scope, wanted).await?;
    let fact = Fact::SecretSet(SecretSet {
        name: row.name.to_string(),
        version: row.version,
        principal: write.principal(),
    });
    record_change(&mut write, &locked, &before, vec![fact]).await?;
    write.finish(Accepted { row, changed: true }).await
}

/// Encrypts the value for its next version and writes it. The scope's lock serializes versions.
async fn store(
    write: &mut Write<'_>,
    scope: Scope,
    wanted: &SecretRequest<'_>,
) -> Result<Secret, Refusal> {
    let name = wanted.entry.name;
    let org_key = org_key(write, scope.org, wanted.encryptor).await?;
    let (last,): (i64,) = sqlx::query_as(
        "select coalesce(max(version), 0) from secrets
         where project_id = $1 and service_id is not distinct from $2 and name = $3",
    )
    .bind(scope.project.uuid())
    .bind(scope.service.map(ServiceId::uuid))
    .bind(name.as_str())
    .fetch_one(&mut *write.tx)
    .await?;
    let place = Place { scope, name: name.clone(), version: last.saturating_add(1) };
    let encrypted = wanted
        .encryptor
        .seal(&org_key, &place, wanted.value, entropy())
        .map_err(Refusal::CannotEncrypt)?;
    let row = sqlx::query(
        "insert into secrets
             (org_id, project_id, service_id, name, nonce, sealed, version, set_by, set_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict on constraint secrets_name_key do update
             set nonce = $5, sealed = $6, version = $7, set_by = $8, set_at = $9
         returning name, version, set_by, set_at",
    )
    .bind(scope.org.uuid())
    .bind(scope.project.uuid())
    .bind(scope.service.map(ServiceId::uuid))
    .bind(name.as_str())
    .bind(encrypted.nonce.as_slice())
    .bind(&encrypted.bytes)
    .bind(place.version)
    .bind(write.principal_name())
    .bind(sql(write.now))
    .fetch_one(&mut *write.tx)
    .await?;
    Ok(secret(&row)?)
}

/// The org's data key, created with its first secret. Concurrent callers agree on one key.
pub(super) async fn org_key(
    write: &mut Write<'_>,
    org: OrgId,
    encryptor: &Encryptor,
) -> Result<WrappedKey, Refusal> {
    const FIND: &str = "select key, nonce as key_nonce, sealed as key_sealed from org_keys
                        where org_id = $1";
    let found = sqlx::query(FIND).bind(org.uuid()).fetch_optional(&mut *write.tx).await?;
    if let Some(row) = found {
        return Ok(wrapped(&row)?);
    }
    let new =
        encryptor.new_org_key(org, &fresh_key(), entropy()).map_err(Refusal::CannotEncrypt)?;
    sqlx::query(
        "insert into org_keys (org_id, key, nonce, sealed, created_at) values ($1, $2, $3, $4, $5)
         on conflict (org_id) do nothing",
    )
    .bind(org.uuid())
    .bind(i32::try_from(new.key).unwrap_or(i32::MAX))
    .bind(new.sealed.nonce.as_slice())
    .bind(&new.sealed.bytes)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let row = sqlx::query(FIND).bind(org.uuid()).fetch_one(&mut *write.tx).await?;
    Ok(wrapped(&row)?)
}
