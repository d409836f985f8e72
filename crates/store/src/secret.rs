//! Secrets: their metadata, their ciphertexts for the driver, and the orgs' data keys.

use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::secret::{Ciphertext, EncryptedSecret, Place, Secret, WrappedKey};
use trueup_model::variable::Scope;
use trueup_rules::envelope::{EnvelopeError, Keyring};
use uuid::Uuid;

use crate::db::new_id::entropy;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::db::setup::Setup;
use crate::variable::{find_scope, owner};
use crate::{App, Error};

impl App {
    /// The secrets of a project or of one of its services, in name order, without values; `None` if
    /// there is no such project or service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_secrets(
        &self,
        org: OrgId,
        project: &str,
        service: Option<&str>,
    ) -> Result<Option<Vec<Secret>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(scope) = find_scope(&mut tx, project, service).await? else {
            return Ok(None);
        };
        let rows = sqlx::query(
            "select name, version, set_by, set_at from secrets
             where project_id = $1 and service_id is not distinct from $2 and sealed is not null
             order by name",
        )
        .bind(scope.project.uuid())
        .bind(scope.service.map(ServiceId::uuid))
        .fetch_all(&mut *tx)
        .await?;
        rows.iter().map(secret).collect::<Result<_, _>>().map(Some)
    }
}

impl Setup {
    /// Re-encrypts every org's data key with the newest master key.
    ///
    /// Returns how many were re-encrypted, and the orgs whose key cannot be decrypted. One org at a
    /// time, and each row names its master key: after a crash every key is readable and the next
    /// start continues.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn rewrap_org_keys(
        &self,
        keys: &Keyring,
    ) -> Result<(u64, Vec<(OrgId, EnvelopeError)>), Error> {
        let newest = i32::try_from(keys.newest()).unwrap_or(i32::MAX);
        let rows = sqlx::query(
            "select org_id, key, nonce as key_nonce, sealed as key_sealed from org_keys
             where key <> $1 order by org_id",
        )
        .bind(newest)
        .fetch_all(self.pool())
        .await?;
        let (mut rewrapped, mut failed) = (0, Vec::new());
        for row in &rows {
            let org = OrgId::from_uuid(row.try_get("org_id")?);
            let old = wrapped(row)?;
            match keys.rewrap(org, &old, entropy()) {
                Ok(new) => {
                    let done = sqlx::query(
                        "update org_keys set key = $3, nonce = $4, sealed = $5
                         where org_id = $1 and sealed = $2",
                    )
                    .bind(org.uuid())
                    .bind(&old.sealed.bytes)
                    .bind(i32::try_from(new.key).unwrap_or(i32::MAX))
                    .bind(new.sealed.nonce.as_slice())
                    .bind(&new.sealed.bytes)
                    .execute(self.pool())
                    .await?;
                    rewrapped += done.rows_affected();
                }
                Err(why) => failed.push((org, why)),
            }
        }
        Ok((rewrapped, failed))
    }
}

pub(crate) fn secret(row: &PgRow) -> Result<Secret, Error> {
    Ok(Secret {
        name: read("secret name", row.try_get("name")?)?,
        version: row.try_get("version")?,
        set_by: row.try_get("set_by")?,
        set_at: row.try_get::<jiff_sqlx::Timestamp, _>("set_at")?.to_jiff(),
    })
}

/// The encrypted secrets of these projects and of their services.
pub(crate) async fn encrypted(
    tx: &mut Tx,
    projects: &[Uuid],
) -> Result<Vec<EncryptedSecret>, Error> {
    let rows = sqlx::query(
        "select s.org_id, s.project_id, s.service_id, s.name, s.version, s.nonce, s.sealed,
                k.key, k.nonce as key_nonce, k.sealed as key_sealed
         from secrets s left join org_keys k on k.org_id = s.org_id
         where s.project_id = any($1) and s.sealed is not null",
    )
    .bind(projects)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter()
        .map(|row| {
            let (project, service) = owner(row)?;
            let scope = Scope { org: OrgId::from_uuid(row.try_get("org_id")?), project, service };
            Ok(EncryptedSecret {
                place: Place {
                    scope,
                    name: read("secret name", row.try_get("name")?)?,
                    version: row.try_get("version")?,
                },
                sealed: Ciphertext { nonce: nonce(row, "nonce")?, bytes: row.try_get("sealed")? },
                org_key: row.try_get::<Option<i32>, _>("key")?.map(|_| wrapped(row)).transpose()?,
            })
        })
        .collect()
}

/// An org's data key, from the columns `key`, `key_nonce` and `key_sealed`.
pub(crate) fn wrapped(row: &PgRow) -> Result<WrappedKey, Error> {
    Ok(WrappedKey {
        key: u32::try_from(row.try_get::<i32, _>("key")?).unwrap_or(0),
        sealed: Ciphertext { nonce: nonce(row, "key_nonce")?, bytes: row.try_get("key_sealed")? },
    })
}

fn nonce(row: &PgRow, column: &str) -> Result<[u8; 12], Error> {
    let bytes: Vec<u8> = row.try_get(column)?;
    bytes.as_slice().try_into().map_err(|source| Error::corrupt("nonce", source))
}
