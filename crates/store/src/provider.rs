//! Identity providers: reading them, and what is needed to talk to one.

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};
use trueup_model::domain::{DnsCheck, DnsResult};
use trueup_model::id::{DomainId, OrgId, ProviderId};
use trueup_model::org::PLATFORM;
use trueup_model::provider::{
    Contact, CredentialKind, EncryptedCredential, GroupRole, Provider, ProviderConnection,
    ProviderDomain, ProviderSpec,
};
use trueup_model::secret::Ciphertext;
use trueup_rules::federation::domain_of;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, time};
use crate::secret::wrapped;
use crate::{App, Error};

/// A provider without its secret; the alias is `p`.
const SELECT: &str =
    "select p.id, p.name, p.issuer, p.client_id, p.groups_claim, p.groups, p.enabled,
        p.outage_minutes, p.sealed is not null as has_secret, p.created_at, p.confirmed_at,
        p.failed_at, p.failure,
        (select count(*) from identities i where i.provider_id = p.id and i.ended_at is null) as people
    from identity_providers p where p.deleted_at is null";

/// What a client needs, with the org's data key; the aliases are `p` and `k`.
pub(crate) const CONNECTION: &str =
    "p.id as provider_id, p.org_id, p.issuer, p.client_id, p.groups_claim,
     p.nonce as secret_nonce, p.sealed as secret_sealed,
     k.key, k.nonce as key_nonce, k.sealed as key_sealed";

/// A domain of a provider as it is stored.
#[derive(FromRow)]
struct DomainColumns {
    id: Uuid,
    provider_id: Uuid,
    host: String,
    verified_at: Option<jiff_sqlx::Timestamp>,
    checked_at: Option<jiff_sqlx::Timestamp>,
    check_result: Option<String>,
    check_detail: Option<String>,
    next_check_at: Option<jiff_sqlx::Timestamp>,
}

impl App {
    /// The providers of an org, in the order of their names.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_providers(&self, org: OrgId) -> Result<Vec<Provider>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} order by p.name");
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        with_domains(&mut tx, &rows).await
    }

    /// The provider with this name or id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn get_provider(&self, org: OrgId, wanted: &str) -> Result<Option<Provider>, Error> {
        find(&mut self.begin(org).await?, wanted).await
    }

    /// The provider of people with this address, if there is one: whoever has proved its domain.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_provider_of(
        &self,
        email: &trueup_model::user::EmailAddress,
    ) -> Result<Option<ProviderConnection>, Error> {
        let Some(host) = domain_of(email) else { return Ok(None) };
        // Before its org is known.
        let mut tx = self.begin(PLATFORM).await?;
        let found: Option<(Uuid, Uuid)> =
            sqlx::query_as("select id, org_id from find_provider_of($1)")
                .bind(host.as_str())
                .fetch_optional(&mut *tx)
                .await?;
        drop(tx);
        let Some((id, org)) = found else { return Ok(None) };
        self.provider_connection(OrgId::from_uuid(org), ProviderId::from_uuid(id)).await
    }

    /// What is needed to talk to a provider; none if it was deleted or is disabled.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn provider_connection(
        &self,
        org: OrgId,
        provider: ProviderId,
    ) -> Result<Option<ProviderConnection>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "select {CONNECTION} from identity_providers p
             left join org_keys k on k.org_id = p.org_id
             where p.id = $1 and p.deleted_at is null and p.enabled"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(provider.uuid())
            .fetch_optional(&mut *tx)
            .await?;
        row.as_ref().map(connection).transpose()
    }
}

/// The provider with this name or id, in the org of the transaction.
pub(crate) async fn find(tx: &mut Tx, wanted: &str) -> Result<Option<Provider>, Error> {
    let statement = format!("{SELECT} and (p.name = $1 or p.id = $2)");
    let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(wanted)
        .bind(wanted.parse::<ProviderId>().ok().map(ProviderId::uuid))
        .fetch_all(&mut **tx)
        .await?;
    Ok(with_domains(tx, &rows).await?.pop())
}

async fn with_domains(tx: &mut Tx, rows: &[PgRow]) -> Result<Vec<Provider>, Error> {
    let ids = rows.iter().map(|row| row.try_get("id")).collect::<Result<Vec<Uuid>, _>>()?;
    let domains: Vec<DomainColumns> = sqlx::query_as(
        "select id, provider_id, host, verified_at, checked_at, check_result, check_detail, next_check_at
         from provider_domains where provider_id = any($1) and deleted_at is null order by host",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    let mut providers = Vec::with_capacity(rows.len());
    for row in rows {
        let id: Uuid = row.try_get("id")?;
        let own = domains.iter().filter(|domain| domain.provider_id == id);
        let own = own.map(domain).collect::<Result<Vec<_>, _>>()?;
        providers.push(provider(row, own)?);
    }
    Ok(providers)
}

fn provider(row: &PgRow, domains: Vec<ProviderDomain>) -> Result<Provider, Error> {
    let groups: Json<Vec<GroupRole>> = row.try_get("groups")?;
    let minutes: i32 = row.try_get("outage_minutes")?;
    Ok(Provider {
        id: ProviderId::from_uuid(row.try_get("id")?),
        name: read("provider name", row.try_get("name")?)?,
        spec: ProviderSpec {
            issuer: row.try_get("issuer")?,
            client_id: row.try_get("client_id")?,
            domains: domains.iter().map(|domain| domain.host.clone()).collect(),
            groups_claim: row.try_get("groups_claim")?,
            groups: groups.0,
            enabled: row.try_get("enabled")?,
            outage_minutes: u32::try_from(minutes).unwrap_or_default(),
        },
        has_secret: row.try_get("has_secret")?,
        domains,
        contact: Contact {
            confirmed_at: maybe_time(row, "confirmed_at")?,
            failed_at: maybe_time(row, "failed_at")?,
            failure: row.try_get("failure")?,
        },
        people: row.try_get("people")?,
        created_at: time(row, "created_at")?,
    })
}

fn domain(row: &DomainColumns) -> Result<ProviderDomain, Error> {
    let at = |time: Option<jiff_sqlx::Timestamp>| time.map(jiff_sqlx::Timestamp::to_jiff);
    let last = match (at(row.checked_at), &row.check_result, &row.check_detail) {
        // An unknown result comes from a newer version and counts as indeterminate.
        (Some(at), Some(result), Some(why)) => {
            let result = result.parse().unwrap_or(DnsResult::Indeterminate);
            Some(DnsCheck { at, result, why: why.clone() })
        }
        _ => None,
    };
    Ok(ProviderDomain {
        id: DomainId::from_uuid(row.id),
        host: read("domain", row.host.clone())?,
        verified_at: at(row.verified_at),
        last,
        next_at: at(row.next_check_at),
    })
}

/// The connection in the columns of [`CONNECTION`].
pub(crate) fn connection(row: &PgRow) -> Result<ProviderConnection, Error> {
    let (org, provider): (Uuid, Uuid) = (row.try_get("org_id")?, row.try_get("provider_id")?);
    let (org, provider) = (OrgId::from_uuid(org), ProviderId::from_uuid(provider));
    Ok(ProviderConnection {
        org,
        provider,
        issuer: row.try_get("issuer")?,
        client_id: row.try_get("client_id")?,
        secret: credential(row, org, CredentialKind::ClientSecret(provider), "secret")?,
        groups_claim: row.try_get("groups_claim")?,
    })
}

/// The credential in the columns `…_nonce` and `…_sealed`, with the org's key.
pub(crate) fn credential(
    row: &PgRow,
    org: OrgId,
    kind: CredentialKind,
    prefix: &str,
) -> Result<Option<EncryptedCredential>, Error> {
    let nonce: Option<Vec<u8>> = row.try_get(format!("{prefix}_nonce").as_str())?;
    let sealed: Option<Vec<u8>> = row.try_get(format!("{prefix}_sealed").as_str())?;
    let (Some(nonce), Some(bytes)) = (nonce, sealed) else { return Ok(None) };
    let nonce = nonce.as_slice().try_into().map_err(|source| Error::corrupt("nonce", source))?;
    let org_key = row.try_get::<Option<i32>, _>("key")?.map(|_| wrapped(row)).transpose()?;
    Ok(Some(EncryptedCredential { org, kind, sealed: Ciphertext { nonce, bytes }, org_key }))
}
