//! Declares and deletes identity providers, and requests checks of them.

use jiff::Timestamp;
use trueup_model::domain::Host;
use trueup_model::event::{
    Fact, ProviderChanged, ProviderCheckRequested, ProviderDeleted, ProviderDomainVerified,
};
use trueup_model::id::{DomainId, OrgId, ProviderId};
use trueup_model::name::Name;
use trueup_model::order::SecretValue;
use trueup_model::provider::{CredentialKind, IdentityEnd, Provider, ProviderSpec};
use trueup_rules::admit::domain::next_dns_check;
use trueup_rules::envelope::Encryptor;
use trueup_rules::federation::may_map;

use super::config::invalid;
use super::federation::end_all;
use super::secret::org_key;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext, system_principal};
use crate::db::clock::sql;
use crate::db::new_id::{entropy, new_id};
use crate::db::row::json;
use crate::provider::find;
use crate::{App, org};

/// The most providers of an org.
const MOST: i64 = 10;
/// The principal's name in events when DNS proved a domain.
const DNS: &str = "dns";

/// A provider to declare, whose spec was checked.
#[derive(Debug, Clone, Copy)]
pub struct ProviderRequest<'a> {
    /// Its name.
    pub name: &'a Name,
    /// What it is.
    pub spec: &'a ProviderSpec,
    /// Its client secret; none leaves the one that is set.
    pub secret: Option<&'a SecretValue>,
    /// Encrypts the secret.
    pub encryptor: &'a Encryptor,
}

impl App {
    /// Declares a provider, or changes it.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_provider(
        &self,
        org: OrgId,
        wanted: &ProviderRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Provider>, Refusal> {
        self.write(org, context, now, |write| put(write, wanted)).await
    }

    /// Deletes a provider, named by name or id: everybody it vouches for loses what it gave them.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_provider(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Provider, Refusal> {
        self.write(org, context, now, |write| delete(write, wanted)).await
    }

    /// Checks the domains of a provider and everybody it vouches for as soon as a loop can.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn request_provider_check(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Provider, Refusal> {
        self.write(org, context, now, |write| request_check(write, wanted)).await
    }

    /// Marks a domain of a provider as proved by DNS; returns whether that changed anything.
    ///
    /// # Errors
    /// [`Refusal::NameTaken`] if another org has the domain; the database cannot be reached.
    pub async fn record_provider_domain(
        &self,
        org: OrgId,
        domain: DomainId,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let principal = system_principal(org, DNS);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| record_proved(write, domain)).await
    }
}

async fn put(
    mut write: Write<'_>,
    wanted: &ProviderRequest<'_>,
) -> Result<Accepted<Provider>, Refusal> {
    let org = write.org();
    if org::lock_shared(&mut write.tx, org).await? {
        return Err(Refusal::OrgBeingDeleted);
    }
    if !may_map(write.context.principal, &wanted.spec.groups) {
        return Err(Refusal::RoleNotGiven);
    }
    lock(&mut write).await?;
    let before = find(&mut write.tx, wanted.name.as_str()).await?;
    let id = match &before {
        None => insert(&mut write, wanted).await?,
        Some(before) => {
            if before.spec.issuer != wanted.spec.issuer {
                let message = "cannot change: another issuer means other people by the same \
                               subjects; declare another provider"
                    .to_owned();
                return Err(invalid("issuer", message));
            }
            if wanted.secret.is_none() && is_same(&before.spec, wanted.spec) {
                return write.finish(Accepted { row: before.clone(), changed: false }).await;
            }
            update(&mut write, before.id, wanted.spec).await?;
            before.id
        }
    };
    if let Some(secret) = wanted.secret {
        set_secret(&mut write, id, secret, wanted.encryptor).await?;
    }
    declare_domains(&mut write, id, &wanted.spec.domains).await?;
    let fact = Fact::ProviderChanged(ProviderChanged {
        provider: id,
        name: wanted.name.to_string(),
        issuer: wanted.spec.issuer.clone(),
        groups: wanted.spec.groups.clone(),
        enabled: wanted.spec.enabled,
        principal: write.principal(),
    });
    write.record(fact).await?;
    let row = find(&mut write.tx, &id.to_string()).await?.ok_or(Refusal::NotFound("provider"))?;
    write.finish(Accepted { row, changed: true }).await
}

fn is_same(before: &ProviderSpec, wanted: &ProviderSpec) -> bool {
    let mut domains = wanted.domains.clone();
    domains.sort();
    domains.dedup();
    *before == ProviderSpec { domains, ..wanted.clone() }
}

/// Locks the providers of the org: two requests that declare one come one after the other.
async fn lock(write: &mut Write<'_>) -> Result<(), Refusal> {
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('provider ' || trueup_org(), 0))")
        .execute(&mut *write.tx)
        .await?;
    Ok(())
}

async fn insert(
    write: &mut Write<'_>,
    wanted: &ProviderRequest<'_>,
) -> Result<ProviderId, Refusal> {
    let (count,): (i64,) =
        sqlx::query_as("select count(*) from identity_providers where deleted_at is null")
            .fetch_one(&mut *write.tx)
            .await?;
    if count >= MOST {
        let message = format!("the org has the maximum of {MOST} providers; delete one first");
        return Err(invalid("name", message));
    }
    let (id, spec): (ProviderId, _) = (new_id(write.now), wanted.spec);
    sqlx::query(
        "insert into identity_providers
             (id, org_id, name, issuer, client_id, groups_claim, groups, enabled, outage_minutes, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(wanted.name.as_str())
    .bind(&spec.issuer)
    .bind(&spec.client_id)
    .bind(&spec.groups_claim)
    .bind(json(&spec.groups))
    .bind(spec.enabled)
    .bind(i32::try_from(spec.outage_minutes).unwrap_or(i32::MAX))
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    Ok(id)
}

/// Everybody is confirmed again at once: the new roles count for them, too.
async fn update(write: &mut Write<'_>, id: ProviderId, spec: &ProviderSpec) -> Result<(), Refusal> {
    sqlx::query(
        "update identity_providers set client_id = $2, groups_claim = $3, groups = $4, enabled = $5,
                outage_minutes = $6 where id = $1",
    )
    .bind(id.uuid())
    .bind(&spec.client_id)
    .bind(&spec.groups_claim)
    .bind(json(&spec.groups))
    .bind(spec.enabled)
    .bind(i32::try_from(spec.outage_minutes).unwrap_or(i32::MAX))
    .execute(&mut *write.tx)
    .await?;
    confirm_all(write, id).await
}

async fn confirm_all(write: &mut Write<'_>, id: ProviderId) -> Result<(), Refusal> {
    sqlx::query(
        "update identities set next_check_at = $2
         where provider_id = $1 and ended_at is null and sealed is not null",
    )
    .bind(id.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}

async fn set_secret(
    write: &mut Write<'_>,
    id: ProviderId,
    secret: &SecretValue,
    encryptor: &Encryptor,
) -> Result<(), Refusal> {
    let org = write.org();
    let key = org_key(write, org, encryptor).await?;
    let kind = CredentialKind::ClientSecret(id);
    let sealed = encryptor
        .seal_credential(org, &key, kind, secret, entropy())
        .map_err(Refusal::CannotEncrypt)?;
    sqlx::query("update identity_providers set nonce = $2, sealed = $3 where id = $1")
        .bind(id.uuid())
        .bind(sealed.nonce.as_slice())
        .bind(&sealed.bytes)
        .execute(&mut *write.tx)
        .await?;
    Ok(())
}

/// Adds the domains that are new, and removes those that are not named any more with their proofs.
async fn declare_domains(
    write: &mut Write<'_>,
    id: ProviderId,
    wanted: &[Host],
) -> Result<(), Refusal> {
    let hosts: Vec<&str> = wanted.iter().map(Host::as_str).collect();
    sqlx::query(
        "update provider_domains set deleted_at = $3
         where provider_id = $1 and deleted_at is null and host <> all($2)",
    )
    .bind(id.uuid())
    .bind(&hosts)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    for host in hosts {
        let domain: DomainId = new_id(write.now);
        sqlx::query(
            "insert into provider_domains
                 (id, org_id, provider_id, host, created_at, check_requested_at, next_check_at)
             values ($1, $2, $3, $4, $5, $5, $6)
             on conflict (provider_id, host) where deleted_at is null do nothing",
        )
        .bind(domain.uuid())
        .bind(write.org().uuid())
        .bind(id.uuid())
        .bind(host)
        .bind(sql(write.now))
        .bind(next_dns_check(write.now, 0, write.now).map(sql))
        .execute(&mut *write.tx)
        .await?;
    }
    Ok(())
}

async fn delete(mut write: Write<'_>, wanted: &str) -> Result<Provider, Refusal> {
    lock(&mut write).await?;
    let row = find(&mut write.tx, wanted).await?.ok_or(Refusal::NotFound("provider"))?;
    for table in ["identity_providers", "provider_domains"] {
        let column = if table == "identity_providers" { "id" } else { "provider_id" };
        let statement = format!(
            "update {table} set deleted_at = $2 where {column} = $1 and deleted_at is null"
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(row.id.uuid())
            .bind(sql(write.now))
            .execute(&mut *write.tx)
            .await?;
    }
    let fact = ProviderDeleted { provider: row.id, principal: write.principal() };
    write.record(Fact::ProviderDeleted(fact)).await?;
    end_all(&mut write, row.id, IdentityEnd::ProviderDeleted).await?;
    write.finish(row).await
}

async fn request_check(mut write: Write<'_>, wanted: &str) -> Result<Provider, Refusal> {
    let row = find(&mut write.tx, wanted).await?.ok_or(Refusal::NotFound("provider"))?;
    confirm_all(&mut write, row.id).await?;
    // As often as people ask: name servers and providers are asked by a loop that limits itself.
    sqlx::query(
        "update provider_domains set check_requested_at = $2, checks = 0, next_check_at = $2
         where provider_id = $1 and verified_at is null and deleted_at is null",
    )
    .bind(row.id.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let fact = ProviderCheckRequested { provider: row.id, principal: write.principal() };
    write.record(Fact::ProviderCheckRequested(fact)).await?;
    let row = find(&mut write.tx, wanted).await?.ok_or(Refusal::NotFound("provider"))?;
    write.finish(row).await
}

async fn record_proved(mut write: Write<'_>, domain: DomainId) -> Result<bool, Refusal> {
    let proved: Option<(uuid::Uuid, String)> = sqlx::query_as(
        "update provider_domains set verified_at = $2, next_check_at = null
         where id = $1 and verified_at is null and deleted_at is null returning provider_id, host",
    )
    .bind(domain.uuid())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await
    .map_err(taken)?;
    let Some((provider, host)) = proved else { return Ok(false) };
    let provider = ProviderId::from_uuid(provider);
    let fact = ProviderDomainVerified { provider, host };
    write.record(Fact::ProviderDomainVerified(fact)).await?;
    write.finish(true).await
}

fn taken(error: sqlx::Error) -> Refusal {
    let rule = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
    if rule == Some("provider_domains_host_key") {
        Refusal::NameTaken("proved domain")
    } else {
        error.into()
    }
}
