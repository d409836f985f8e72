//! Sends browsers to providers, redeems the codes that they bring back, and confirms people later.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use jiff::SignedDuration;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod,
    CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret,
    CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenFields,
    LoginHint, Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RefreshToken, RequestTokenError, Scope, SignatureVerificationError, StandardErrorResponse,
    StandardTokenResponse, SubjectIdentifier, TokenResponse, UserInfoError,
};
use trueup_model::Clock;
use trueup_model::provider::{
    Authorization, Claims, DueConfirmation, ProviderConnection, ProviderError, ReturnedCode,
};
use trueup_rules::envelope::Decryptor;

use crate::claims::{Further, InfoClaims, Said, TokenClaims};
use crate::discovery::Discovery;
use crate::transport::{Transport, TransportError};

/// How much the clocks of a provider and of Trueup may differ.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// The longest explanation of a failure that is kept.
const LONGEST: usize = 300;

type Fields = IdTokenFields<
    Further,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type Tokens = StandardTokenResponse<Fields, CoreTokenType>;
type Oidc = openidconnect::Client<
    Further,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;
type TokenError = RequestTokenError<TransportError, StandardErrorResponse<CoreErrorResponseType>>;

/// The algorithms of ID tokens: those with a public key. With any other, whoever knows the client secret could make
/// an ID token, or nobody need sign it (S02).
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// How a client is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where providers send browsers back to: one address, never taken from a request.
    pub redirect: String,
    /// Whether providers may be in private networks, and on this machine without TLS.
    pub allow_private: bool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Decrypts client secrets and refresh tokens.
    pub decryptor: Decryptor,
}

/// The client for all providers of all orgs.
pub struct Client {
    settings: Settings,
    transport: Transport,
    discovery: Discovery,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn new(settings: Settings) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let transport = Transport::new(settings.allow_private)?;
        Ok(Self { settings, transport, discovery: Discovery::default() })
    }

    /// Where to send a browser, and what its return is checked against.
    ///
    /// # Errors
    /// The provider cannot be reached, or is not the one that was declared.
    pub async fn authorize(
        &self,
        provider: &ProviderConnection,
        login_hint: &str,
    ) -> Result<Authorization, ProviderError> {
        let metadata = self.metadata(provider).await?;
        let endpoint = metadata.authorization_endpoint().url();
        self.transport.check(endpoint).map_err(|error| {
            ProviderError::NotValid(format!("browsers cannot be sent to it: {error}"))
        })?;
        let offers = |wanted: &str| {
            let offered = metadata.scopes_supported();
            offered.is_some_and(|all| all.iter().any(|scope| scope.as_str() == wanted))
        };
        let client = self.client(provider, metadata.clone())?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scope(Scope::new("email".to_owned()))
            .add_scope(Scope::new("profile".to_owned()))
            .set_login_hint(LoginHint::new(login_hint.to_owned()))
            .set_pkce_challenge(challenge);
        if offers("groups") {
            request = request.add_scope(Scope::new("groups".to_owned()));
        }
        if offers("offline_access") {
            // The standard gives a refresh token to whoever consents (OpenID Connect Core 1.0, section 11).
            let scope = Scope::new("offline_access".to_owned());
            request = request.add_scope(scope).add_prompt(CoreAuthPrompt::Consent);
        }
        let (url, state, nonce) = request.url();
        Ok(Authorization {
            url: url.to_string(),
            state: state.into_secret().into(),
            nonce: nonce.secret().clone().into(),
            verifier: verifier.into_secret().into(),
        })
    }

    /// Who brought a code back.
    ///
    /// # Errors
    /// The provider cannot be reached, refuses the code, or answers what must not be believed.
    pub async fn exchange(
        &self,
        provider: &ProviderConnection,
        returned: &ReturnedCode,
    ) -> Result<Claims, ProviderError> {
        let client = self.client(provider, self.metadata(provider).await?)?;
        let code = AuthorizationCode::new(returned.code.reveal().to_owned());
        let verifier = PkceCodeVerifier::new(returned.verifier.reveal().to_owned());
        let request = client.exchange_code(code).map_err(|error| unavailable(NO_TOKENS, &error))?;
        let tokens = request.set_pkce_verifier(verifier).request_async(&self.transport).await;
        let tokens = tokens.map_err(|error| token_refused(&error))?;
        let nonce = Nonce::new(returned.nonce.reveal().to_owned());
        let (client, claims) = self.verified(provider, client, &tokens, Some(&nonce)).await?;
        let claims = claims.ok_or_else(|| not_valid("it sent no ID token"))?;
        self.about(provider, &client, &tokens, claims.subject().clone(), Some(&claims)).await
    }

    /// Whether a provider still confirms a person, and what it says about them now.
    ///
    /// # Errors
    /// The provider cannot be reached, does not know the person any more, or answers what must not be believed.
    pub async fn confirm(&self, due: &DueConfirmation) -> Result<Claims, ProviderError> {
        let provider = &due.connection;
        let token = due.refresh_token.as_ref();
        let token = token.ok_or_else(|| not_valid("it gave no refresh token"))?;
        let token = self.settings.decryptor.open_credential(token);
        let token =
            token.map_err(|error| unavailable("the refresh token is unreadable", &error))?;
        let token = RefreshToken::new(token.reveal().to_owned());
        let client = self.client(provider, self.metadata(provider).await?)?;
        let request = client
            .exchange_refresh_token(&token)
            .map_err(|error| unavailable(NO_TOKENS, &error))?;
        let tokens = request.request_async(&self.transport).await;
        let tokens = tokens.map_err(|error| token_refused(&error))?;
        let (client, claims) = self.verified(provider, client, &tokens, None).await?;
        let subject = SubjectIdentifier::new(due.subject.clone());
        if claims.as_ref().is_some_and(|claims| *claims.subject() != subject) {
            return Err(not_valid("it confirmed another person"));
        }
        self.about(provider, &client, &tokens, subject, claims.as_ref()).await
    }

    async fn metadata(
        &self,
        provider: &ProviderConnection,
    ) -> Result<CoreProviderMetadata, ProviderError> {
        let now = self.settings.clock.monotonic();
        self.discovery.metadata(&self.transport, &provider.issuer, now).await
    }

    fn client(
        &self,
        provider: &ProviderConnection,
        metadata: CoreProviderMetadata,
    ) -> Result<Oidc, ProviderError> {
        let secret = provider.secret.as_ref();
        let secret = secret.map(|secret| self.settings.decryptor.open_credential(secret));
        let secret = secret
            .transpose()
            .map_err(|error| unavailable("the client secret is unreadable", &error))?;
        let secret = secret.map(|secret| ClientSecret::new(secret.reveal().to_owned()));
        let redirect = RedirectUrl::new(self.settings.redirect.clone())
            .map_err(|error| unavailable("Trueup has no address to come back to", &error))?;
        let methods = metadata.token_endpoint_auth_methods_supported();
        let in_body = methods.is_some_and(|methods| {
            !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
                && methods.contains(&CoreClientAuthMethod::ClientSecretPost)
        });
        let client_id = ClientId::new(provider.client_id.clone());
        let client = Oidc::from_provider_metadata(metadata, client_id, secret);
        let client = client.set_redirect_uri(redirect);
        Ok(if in_body { client.set_auth_type(AuthType::RequestBody) } else { client })
    }

    /// The claims of the ID token, if there is one, with the client whose keys it was verified with: those of a
    /// provider that has changed its keys are read again.
    async fn verified(
        &self,
        provider: &ProviderConnection,
        client: Oidc,
        tokens: &Tokens,
        nonce: Option<&Nonce>,
    ) -> Result<(Oidc, Option<TokenClaims>), ProviderError> {
        match self.verify(&client, tokens, nonce) {
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey
                | SignatureVerificationError::CryptoError(_),
            )) => {
                let now = self.settings.clock.monotonic();
                let renewed =
                    self.discovery.renewed(&self.transport, &provider.issuer, now).await?;
                let client = match renewed {
                    Some(metadata) => self.client(provider, metadata)?,
                    None => client,
                };
                let claims = self.verify(&client, tokens, nonce).map_err(|error| forged(&error))?;
                Ok((client, claims))
            }
            Err(error) => Err(forged(&error)),
            Ok(claims) => Ok((client, claims)),
        }
    }

    fn verify(
        &self,
        client: &Oidc,
        tokens: &Tokens,
        nonce: Option<&Nonce>,
    ) -> Result<Option<TokenClaims>, ClaimsVerificationError> {
        let Some(token) = tokens.id_token() else { return Ok(None) };
        let now = self.settings.clock.now();
        let clock = |shift: SignedDuration| {
            let at = now.checked_add(shift).unwrap_or(now);
            DateTime::<Utc>::from_timestamp(at.as_second(), 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
        };
        let (late, early) = (clock(-SKEW), clock(SKEW));
        let verifier = client
            .id_token_verifier()
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || late)
            .set_issue_time_verifier_fn(move |issued| {
                if issued <= early { Ok(()) } else { Err("issued in the future".to_owned()) }
            });
        let claims = match nonce {
            Some(nonce) => token.claims(&verifier, nonce)?,
            // A refresh begins in no browser, so there is nothing that a nonce could tie it to.
            None => token.claims(&verifier, |_: Option<&Nonce>| Ok(()))?,
        };
        if let Some(expected) = claims.access_token_hash() {
            let actual = AccessTokenHash::from_token(
                tokens.access_token(),
                token.signing_alg().map_err(ClaimsVerificationError::SignatureVerification)?,
                token
                    .signing_key(&verifier)
                    .map_err(ClaimsVerificationError::SignatureVerification)?,
            );
            if actual.ok().as_ref() != Some(expected) {
                return Err(ClaimsVerificationError::Other("another access token".to_owned()));
            }
        }
        Ok(Some(claims.clone()))
    }

    /// What the provider says about a person: its userinfo endpoint knows the newest groups.
    async fn about(
        &self,
        provider: &ProviderConnection,
        client: &Oidc,
        tokens: &Tokens,
        subject: SubjectIdentifier,
        claims: Option<&TokenClaims>,
    ) -> Result<Claims, ProviderError> {
        let groups = provider.groups_claim.as_str();
        let by_token = claims.map(|claims| Said::by_token(claims, groups)).unwrap_or_default();
        let text = subject.to_string();
        let said = if client.user_info_url().is_some() {
            let request = client.user_info(tokens.access_token().to_owned(), Some(subject));
            let request = request.map_err(|error| unavailable(NO_INFO, &error))?;
            let info: InfoClaims = request
                .request_async(&self.transport)
                .await
                .map_err(|error| info_refused(&error))?;
            Said::by_info(&info, groups).or(by_token)
        } else {
            by_token
        };
        let refresh_token = tokens.refresh_token().map(|token| token.secret().clone().into());
        Ok(Claims { refresh_token, ..said.about(&text) })
    }
}

const NO_TOKENS: &str = "it gives no tokens";
const NO_INFO: &str = "its userinfo endpoint cannot be read";

fn token_refused(error: &TokenError) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(response)
            if *response.error() == CoreErrorResponseType::InvalidGrant =>
        {
            let why = response.error_description().map_or("", String::as_str);
            ProviderError::Refused(explained("it answered invalid_grant", why))
        }
        other => unavailable(NO_TOKENS, other),
    }
}

fn info_refused(error: &UserInfoError<TransportError>) -> ProviderError {
    match error {
        UserInfoError::Response(status, ..) if matches!(status.as_u16(), 401 | 403) => {
            ProviderError::Refused(format!("its userinfo endpoint answered {status}"))
        }
        UserInfoError::ClaimsVerification(why) => forged(why),
        other => unavailable(NO_INFO, other),
    }
}

fn forged(error: &ClaimsVerificationError) -> ProviderError {
    not_valid(&explained("its ID token is not valid", &causes(error)))
}

fn not_valid(why: &str) -> ProviderError {
    ProviderError::NotValid(why.to_owned())
}

pub(crate) fn unavailable(what: &str, error: &(dyn std::error::Error + 'static)) -> ProviderError {
    ProviderError::Unavailable(explained(what, &causes(error)))
}

/// An error with its causes.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// An explanation that is safe to keep and to show: a provider chooses a part of it.
fn explained(what: &str, why: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let why: Cow<'_, str> = why.chars().map(plain).take(LONGEST).collect::<String>().into();
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanation_has_no_control_characters_and_an_end() {
        let text = explained("it refused", &format!("\u{1b}[31mno\r\n{}", "x".repeat(1000)));
        assert!(!text.chars().any(char::is_control));
        assert!(text.len() < 400, "{}", text.len());
    }
}
