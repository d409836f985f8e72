//! Identity providers: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::domain::Host;
use trueup_model::id::ProviderId;
use trueup_model::name::Name;
use trueup_model::principal::Role;
use trueup_model::provider::ProviderState;
use trueup_model::secret::{SecretValue, expose};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::schema::OutageMinutes;
use crate::session::Session;

/// The body that declares an identity provider, or changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "issuer": "https://id.example.com", "client_id": "trueup", "client_secret": "…",
    "domains": ["example.com"], "groups": [{"group": "platform", "role": "developer"}]}))]
pub struct ProviderRequest {
    /// The provider's issuer: an https URL, exactly as its ID tokens name it. It cannot change.
    #[schema(min_length = 1, max_length = 500)]
    pub issuer: String,
    /// The id that the provider gave to Trueup.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub client_id: String,
    /// The secret that the provider gave to Trueup. Without one the secret that is set stays; a public client has none.
    /// It is never shown.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_some")]
    #[schema(value_type = Option<String>, format = "password", min_length = 1, max_length = 1000)]
    pub client_secret: Option<SecretValue>,
    /// The domains of the addresses that it vouches for. Each must be proved by a TXT record.
    #[schema(value_type = Vec<Host>, min_items = 1, max_items = 20)]
    pub domains: Vec<String>,
    /// The claim with the groups of a person; the default is `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub groups_claim: Option<String>,
    /// The roles of groups: the first group that a person is in counts. `*` is everybody.
    #[schema(min_items = 1, max_items = 100)]
    pub groups: Vec<ProviderGroup>,
    /// Whether people can sign in with it; the default is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How many minutes sessions outlive the last confirmation while the provider does not answer; the default is 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OutageMinutes>)]
    pub outage_minutes: Option<u32>,
}

fn expose_some<S: serde::Serializer>(
    secret: &Option<SecretValue>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => expose(secret, serializer),
        None => serializer.serialize_none(),
    }
}

/// A role for the members of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderGroup {
    /// The group, as the provider names it; `*` is everybody.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub group: String,
    /// The role in the org.
    #[schema(value_type = Role)]
    pub role: String,
}

/// An identity provider, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Provider {
    /// `idp_…`
    #[schema(value_type = ProviderId)]
    pub id: String,
    /// Its name in the org.
    #[schema(value_type = Name)]
    pub name: String,
    /// Its issuer.
    pub issuer: String,
    /// The id of Trueup at the provider.
    pub client_id: String,
    /// Whether a client secret is set.
    pub has_secret: bool,
    /// The address to register at the provider: it sends browsers back there, and nowhere else.
    pub redirect_uri: String,
    /// Its domains.
    pub domains: Vec<ProviderDomain>,
    /// The claim with the groups of a person.
    pub groups_claim: String,
    /// The roles of groups, in the order in which they count.
    pub groups: Vec<ProviderGroup>,
    /// Whether people can sign in with it.
    pub enabled: bool,
    /// How many minutes sessions outlive the last confirmation.
    pub outage_minutes: u32,
    /// Whether it answers.
    pub state: ProviderState,
    /// When it last confirmed somebody; null if it never has.
    pub confirmed_at: Option<Timestamp>,
    /// When a request to it last failed; null if none has.
    pub failed_at: Option<Timestamp>,
    /// Why that failed.
    pub failure: Option<String>,
    /// How many people it vouches for now.
    pub people: i64,
    /// When it was declared.
    pub created_at: Timestamp,
}

/// A domain of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderDomain {
    /// The domain.
    #[schema(value_type = Host)]
    pub host: String,
    /// Since when it is proved; null until then.
    pub verified_at: Option<Timestamp>,
    /// The name of the TXT record that proves it.
    pub record: String,
    /// The text of that record.
    pub text: String,
    /// What the last DNS check found; null if there was none.
    pub detail: Option<String>,
    /// When the next check is due; null if none is.
    pub next_check_at: Option<Timestamp>,
}

/// A list of identity providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderList {
    /// In the order of their names.
    pub items: Vec<Provider>,
}

/// The body that begins a sign-in with a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"email": "ada@example.com"}))]
pub struct ProviderSignInStart {
    /// The address: its domain tells the provider.
    pub email: String,
}

/// Where a browser goes to sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderSignInUrl {
    /// A page of the provider. It sends the browser back within ten minutes.
    pub url: String,
}

/// The body that ends a sign-in with a provider: what it gave the browser to bring back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"state": "…", "code": "…"}))]
pub struct ProviderSignIn {
    /// The parameter `state`.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String)]
    pub state: SecretValue,
    /// The parameter `code`.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String)]
    pub code: SecretValue,
    /// The parameter `iss`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
}

impl Client {
    /// The identity providers of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn provider_list(&self) -> Result<ProviderList, ClientError> {
        self.get("/v1/providers").await
    }

    /// An identity provider, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn provider_get(&self, provider: &str) -> Result<Provider, ClientError> {
        self.get(&format!("/v1/providers/{}", segment(provider)?)).await
    }

    /// Declares an identity provider, or changes it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn provider_put(
        &self,
        provider: &str,
        wanted: &ProviderRequest,
    ) -> Result<Provider, ClientError> {
        let path = format!("/v1/providers/{}", segment(provider)?);
        Ok(self.put(&path, wanted).await?.1)
    }

    /// Deletes an identity provider, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn provider_delete(&self, provider: &str) -> Result<Provider, ClientError> {
        let path = format!("/v1/providers/{}", segment(provider)?);
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }

    /// Checks the domains of a provider and everybody it vouches for now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn provider_check(&self, provider: &str) -> Result<Provider, ClientError> {
        let path = format!("/v1/providers/{}/check", segment(provider)?);
        self.post(&path, &serde_json::json!({})).await
    }

    /// Begins a sign-in with the provider of an address. The response's cookie belongs to a browser.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_start_with_provider(
        &self,
        wanted: &ProviderSignInStart,
    ) -> Result<ProviderSignInUrl, ClientError> {
        self.post("/v1/session/provider/start", wanted).await
    }

    /// Ends a sign-in with a provider. Returns the session and its secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_create_with_provider(
        &self,
        wanted: &ProviderSignIn,
    ) -> Result<(Session, SecretValue), ClientError> {
        self.begin_session("/v1/session/provider", wanted).await
    }
}
