//! Signing in with an identity provider: sends a browser there, and checks what it brings back.
//!
//! This crate makes no requests to other servers. The provider is asked through [`SignInProviders`], a port that the
//! binary connects to the only client. The provider sends the browser to a page of the dashboard, which posts the
//! code from the same origin: every cookie of a sign-in is strict, and no answer depends on a request of another
//! site. Whatever is wrong, there is one answer; why is in the log of the org.

use std::fmt::Debug;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use trueup_api::Code;
use trueup_api::provider::{ProviderSignIn, ProviderSignInStart, ProviderSignInUrl};
use trueup_api::session::Session;
use trueup_model::provider::{
    Authorization, Claims, IdentityEnd, ProviderConnection, ProviderError, ReturnedCode,
    SIGN_IN_WITHIN,
};
use trueup_model::session::Holder;
use trueup_model::user::EmailAddress;
use trueup_store::SignInAttempt;
use trueup_store::door::{PendingSignIn, ProviderSignIn as Entry, Refusal};

use crate::AppState;
use crate::front::body::Body;
use crate::front::cookie::{Sent, SessionCookie};
use crate::front::problem::{Answer, Failure};
use crate::front::trace;
use crate::session::{SignInRequest, begun};

/// The time that a provider has to answer: less than a response may take.
const ANSWER: Duration = Duration::from_secs(8);

/// Asks identity providers.
pub trait SignInProviders: Debug + Send + Sync {
    /// Where providers send browsers back to.
    fn redirect_uri(&self) -> &str;

    /// Whether providers may be in private networks.
    fn allows_private(&self) -> bool;

    /// Where to send a browser, and what its return is checked against.
    fn authorize<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        login_hint: &'a str,
    ) -> BoxFuture<'a, Result<Authorization, ProviderError>>;

    /// Who brought a code back.
    fn exchange<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        returned: &'a ReturnedCode,
    ) -> BoxFuture<'a, Result<Claims, ProviderError>>;
}

/// No provider answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProviders;

impl SignInProviders for NoProviders {
    fn redirect_uri(&self) -> &'static str {
        "http://localhost/sign-in/callback"
    }

    fn allows_private(&self) -> bool {
        false
    }

    fn authorize<'a>(
        &'a self,
        _: &'a ProviderConnection,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Authorization, ProviderError>> {
        ready(Err(ProviderError::Unavailable("no provider is connected".to_owned()))).boxed()
    }

    fn exchange<'a>(
        &'a self,
        _: &'a ProviderConnection,
        _: &'a ReturnedCode,
    ) -> BoxFuture<'a, Result<Claims, ProviderError>> {
        ready(Err(ProviderError::Unavailable("no provider is connected".to_owned()))).boxed()
    }
}

/// The cookie that ties a sign-in to the browser that began it.
#[derive(Debug)]
pub(crate) struct Browser {
    cookie: SessionCookie,
    sent: Sent,
}

impl FromRequestParts<AppState> for Browser {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Self::Rejection> {
        let cookie = SessionCookie::of_sign_in(parts);
        let sent = cookie.sent(parts);
        Ok(Self { cookie, sent })
    }
}

/// Begins a sign-in with the provider of an address: the response sets a cookie and names the provider's page.
///
/// The answer depends on the domain of the address alone, and does not tell who has an account.
#[utoipa::path(post, path = "/v1/session/provider/start", operation_id = "session_start_with_provider",
    tag = "sessions", request_body = ProviderSignInStart, security(()),
    extensions(("x-problems" = json!([Code::TooManySignIns, Code::ProviderSignInFailed, Code::ProviderUnavailable]))),
    responses((status = 200, description = "sets the cookie that the return is checked against",
               body = ProviderSignInUrl)))]
pub(crate) async fn session_start_with_provider(
    State(state): State<AppState>,
    request: SignInRequest,
    browser: Browser,
    Body(wanted): Body<ProviderSignInStart>,
) -> Answer<Response> {
    let now = state.clock.now();
    let email = wanted.email.parse::<EmailAddress>().ok();
    let attempt = SignInAttempt::new(email.as_ref(), &request.client);
    if !state.app.count_sign_in(&attempt, now).await? {
        return Err(Failure::too_many_sign_ins());
    }
    let email = email.ok_or_else(no_provider)?;
    let provider = state.app.find_provider_of(&email).await?.ok_or_else(no_provider)?;
    let asked = state.providers.authorize(&provider, email.as_str());
    let authorization = match in_time(&state, asked).await {
        Ok(authorization) => authorization,
        Err(error) => return Err(refuse(&state, &provider, &error).await?),
    };
    let secret = state.app.keep_provider_sign_in(&provider, &authorization, now).await?;
    let lifetime = SIGN_IN_WITHIN.as_secs();
    let mut headers = HeaderMap::new();
    let cookie = browser.cookie.header(secret.reveal(), lifetime);
    headers.extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    Ok((headers, Json(ProviderSignInUrl { url: authorization.url })).into_response())
}

/// Ends a sign-in with a provider: the response sets the cookie of the session.
///
/// A code and a state work once, in the browser that began the sign-in.
#[utoipa::path(post, path = "/v1/session/provider", operation_id = "session_create_with_provider",
    tag = "sessions", request_body = ProviderSignIn, security(()),
    extensions(("x-problems" = json!([Code::ProviderSignInFailed, Code::ProviderUnavailable,
                                      Code::KeyUnavailable]))),
    responses((status = 200, description = "signed in; sets the cookie", body = Session)))]
pub(crate) async fn session_create_with_provider(
    State(state): State<AppState>,
    request: SignInRequest,
    browser: Browser,
    Body(wanted): Body<ProviderSignIn>,
) -> Answer<Response> {
    let now = state.clock.now();
    let Sent::One(secret) = &browser.sent else { return Err(failed()) };
    let taken = state.app.take_provider_sign_in(wanted.state.reveal(), secret, now).await?;
    let pending = taken.ok_or_else(failed)?;
    let provider = state.app.provider_connection(pending.org, pending.provider).await?;
    let provider = provider.ok_or_else(failed)?;
    let claims = match returned(&state, &provider, wanted, &pending).await {
        Ok(claims) => claims,
        Err(error) => return Err(refuse(&state, &provider, &error).await?),
    };
    let entry = Entry {
        org: pending.org,
        provider: pending.provider,
        claims: &claims,
        former: request.former(),
        encryptor: &state.encryptor,
    };
    let entered = state.app.sign_in_with_provider(&entry, trace::current(), state.clock.now());
    let session = match Box::pin(entered).await {
        Ok(session) => session,
        Err(Refusal::NotVouched(reason)) => {
            let why = ProviderError::Refused(explain(reason).to_owned());
            return Err(refuse(&state, &provider, &why).await?);
        }
        // Deleted or disabled at this moment.
        Err(Refusal::NotFound(_)) => return Err(failed()),
        Err(refusal) => return Err(refusal.into()),
    };
    if let Holder::User(user, _) = &session.session.holder {
        let email = user.email.parse::<EmailAddress>().ok();
        state.app.forgive_sign_ins(&SignInAttempt::new(email.as_ref(), &request.client)).await?;
    }
    let mut response = begun(&state, &request, &session).await?;
    // Appended: `extend` would replace the cookie of the session.
    if let Some(gone) = browser.cookie.header("", 0) {
        response.headers_mut().append(header::SET_COOKIE, gone);
    }
    Ok(response)
}

/// What the provider says about whoever brought a code back.
async fn returned(
    state: &AppState,
    provider: &ProviderConnection,
    wanted: ProviderSignIn,
    pending: &PendingSignIn,
) -> Result<Claims, ProviderError> {
    // RFC 9207: the code of one provider is not sent to another.
    if wanted.iss.is_some_and(|issuer| issuer != provider.issuer) {
        let why = "the browser came back from another issuer";
        return Err(ProviderError::NotValid(why.to_owned()));
    }
    let code = ReturnedCode {
        code: wanted.code,
        nonce: pending.nonce.clone(),
        verifier: pending.verifier.clone(),
    };
    in_time(state, state.providers.exchange(provider, &code)).await
}

async fn in_time<T>(
    state: &AppState,
    asked: BoxFuture<'_, Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    tokio::select! {
        answer = asked => answer,
        () = state.clock.sleep(ANSWER) => {
            let why = format!("no answer within {} seconds", ANSWER.as_secs());
            Err(ProviderError::Unavailable(why))
        }
    }
}

/// Records why a sign-in was refused, for the owners of the org; the answer does not tell it.
async fn refuse(
    state: &AppState,
    provider: &ProviderConnection,
    error: &ProviderError,
) -> Answer<Failure> {
    let (org, now) = (provider.org, state.clock.now());
    state.app.refuse_provider_sign_in(org, provider.provider, error, trace::current(), now).await?;
    state.signals.event();
    Ok(match error {
        ProviderError::Unavailable(_) => Failure::new(
            Code::ProviderUnavailable,
            "the identity provider of this address does not answer; try again in a few minutes, or \
             ask an owner of your org",
        ),
        ProviderError::Refused(_) | ProviderError::NotValid(_) => failed(),
    })
}

/// Why a provider did not vouch for somebody, for the owners of the org.
const fn explain(reason: IdentityEnd) -> &'static str {
    match reason {
        IdentityEnd::NoRole => "no group of the person has a role",
        IdentityEnd::NoAddress => {
            "the address of the person is not verified, or not in a proved domain of the provider"
        }
        IdentityEnd::Refused
        | IdentityEnd::ProviderDeleted
        | IdentityEnd::MemberRemoved
        | IdentityEnd::Unconfirmed => "the provider does not vouch for the person",
    }
}

/// The one answer to everything that a browser can bring back wrong.
fn failed() -> Failure {
    Failure::new(
        Code::ProviderSignInFailed,
        "the identity provider confirmed nobody who may enter, or the sign-in was begun elsewhere, \
         took too long or was used before; begin again, or ask an owner of your org",
    )
}

fn no_provider() -> Failure {
    Failure::new(
        Code::NotFound,
        "no identity provider signs in addresses of this domain; sign in with a password, or ask an \
         owner of your org",
    )
}
