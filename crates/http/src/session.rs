//! Sessions: sign in, look, sign out.
//!
//! Whatever is wrong with a sign-in, the answer is the same and costs the same: an unknown address has its
//! password checked, too, against a hash that nobody has.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use trueup_api::Code;
use trueup_api::session::{RoleInOrg, Session, SessionOrg, SessionPrincipal, SignIn, TokenSignIn};
use trueup_model::OrgId;
use trueup_model::id::SessionId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Principal, PrincipalId, Role};
use trueup_model::session as model;
use trueup_model::session::Holder;
use trueup_rules::access::granted;
use trueup_store::door::{Refusal, RequestContext};
use trueup_store::{NewSession, SignInAttempt};

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::SignedIn;
use crate::front::cookie::{Sent, SessionCookie};
use crate::front::problem::{Answer, Failure};
use crate::front::proxy::ClientAddress;
use crate::front::{concurrency, same_site, trace};
use crate::member::roles_in_projects;

/// A browser or program that signs in.
#[derive(Debug)]
pub(crate) struct SignInRequest {
    cookie: SessionCookie,
    /// The address of the client.
    pub(crate) client: String,
    /// The session that the browser has now.
    former: Option<SessionId>,
}

impl FromRequestParts<AppState> for SignInRequest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        same_site::check_sign_in(parts)?;
        concurrency::enter_unknown(parts).await?;
        let cookie = SessionCookie::of(parts);
        let former = match cookie.sent(parts) {
            Sent::One(secret) => state.app.find_session(&secret, state.clock.now()).await?,
            Sent::Nothing | Sent::Several => None,
        };
        let client = parts.extensions.get::<ClientAddress>();
        let client = client.map_or_else(String::new, |client| client.0.to_string());
        Ok(Self { cookie, client, former: former.map(|session| session.id) })
    }
}

impl SignInRequest {
    /// The session that the browser has now.
    pub(crate) const fn former(&self) -> Option<SessionId> {
        self.former
    }
}

/// Signs a user in: the response sets the cookie of the session.
///
/// The answer does not say whether the address or the password is wrong.
#[utoipa::path(post, path = "/v1/session", operation_id = "session_create", tag = "sessions",
    request_body = SignIn, security(()),
    extensions(("x-problems" = json!([Code::TooManySignIns]))),
    responses((status = 200, description = "signed in; sets the cookie", body = Session)))]
pub(crate) async fn session_create(
    State(state): State<AppState>,
    request: SignInRequest,
    Body(wanted): Body<SignIn>,
) -> Answer<Response> {
    let now = state.clock.now();
    let email = wanted.email.parse().ok();
    let attempt = SignInAttempt::new(email.as_ref(), &request.client);
    if !state.app.count_sign_in(&attempt, now).await? {
        return Err(Failure::too_many_sign_ins());
    }
    let login = state.app.find_login(email.as_ref()).await?;
    let (user, hash) =
        login.map(|login| ((login.user, login.is_member), login.password_hash)).unzip();
    let is_right = state.passwords.verify(wanted.password, hash.flatten()).await?;
    let (user, is_member) = user.unzip();
    let Some(user) = user.filter(|_| is_right && is_member == Some(true)) else {
        state.app.refuse_sign_in(user, trace::current(), now).await?;
        return Err(wrong());
    };
    let holder = PrincipalId::User(user);
    let begun = begin(&state, holder, &request).await?;
    state.app.forgive_sign_ins(&attempt).await?;
    Ok(begun)
}

/// Signs a browser in with a token: the session has the token's role and ends with it.
#[utoipa::path(post, path = "/v1/session/token", operation_id = "session_create_by_token",
    tag = "sessions", request_body = TokenSignIn, security(()),
    responses((status = 200, description = "signed in; sets the cookie", body = Session)))]
pub(crate) async fn session_create_by_token(
    State(state): State<AppState>,
    request: SignInRequest,
    Body(wanted): Body<TokenSignIn>,
) -> Answer<Response> {
    let principal = state.app.authenticate(wanted.token.reveal(), state.clock.now()).await?;
    let holder = principal.ok_or_else(wrong)?.id;
    begin(&state, holder, &request).await
}

/// Shows the session of the cookie.
#[utoipa::path(get, path = "/v1/session", operation_id = "session_get", tag = "sessions",
    security(("session" = [])),
    responses((status = 200, body = Session)))]
pub(crate) async fn session_get(
    State(state): State<AppState>,
    SignedIn { session, principal, org }: SignedIn,
) -> Answer<Json<Session>> {
    view(&state, &session, &principal, org).await.map(Json)
}

/// Ends the session of the cookie. Its open streams end, too.
#[utoipa::path(delete, path = "/v1/session", operation_id = "session_delete", tag = "sessions",
    security(("session" = [])),
    responses((status = 204, description = "signed out; removes the cookie")))]
pub(crate) async fn session_delete(
    State(state): State<AppState>,
    SignedIn { session, principal, .. }: SignedIn,
    Cookie(cookie): Cookie,
) -> Answer<Response> {
    let context = RequestContext::new(&principal, trace::current());
    state.app.sign_out(&session, &context, state.clock.now()).await?;
    state.signals.event();
    Ok((StatusCode::NO_CONTENT, with_cookie(cookie.clear())).into_response())
}

/// The cookie of a request's site.
#[derive(Debug)]
pub(crate) struct Cookie(SessionCookie);

impl<S: Sync> FromRequestParts<S> for Cookie {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(SessionCookie::of(parts)))
    }
}

/// The same answer for every wrong sign-in.
pub(crate) fn wrong() -> Failure {
    Failure::new(Code::Unauthenticated, "wrong email address, password or token")
}

/// Begins a session and answers with its cookie.
pub(crate) async fn begin(
    state: &AppState,
    holder: PrincipalId,
    request: &SignInRequest,
) -> Answer<Response> {
    let (principal, now) = (signing_in(holder), state.clock.now());
    let context = RequestContext::new(&principal, trace::current());
    let begun = state.app.sign_in(holder, request.former, &context, now).await;
    let new = begun.map_err(|refusal| match refusal {
        // Removed or revoked between the check and now.
        Refusal::NotFound(_) => wrong(),
        refusal => refusal.into(),
    })?;
    self::begun(state, request, &new).await
}

/// Answers with the cookie of a session that has begun.
pub(crate) async fn begun(
    state: &AppState,
    request: &SignInRequest,
    NewSession { secret, session }: &NewSession,
) -> Answer<Response> {
    state.signals.event();
    let (principal, org) = session.first().ok_or_else(wrong)?;
    let shown = view(state, session, &principal, org).await?;
    Ok((with_cookie(request.cookie.set(secret)), Json(shown)).into_response())
}

/// The principal of a sign-in, for attribution: it has no permissions yet.
fn signing_in(holder: PrincipalId) -> Principal {
    Principal {
        id: holder,
        name: String::new(),
        role: Role::Member,
        projects: Vec::new(),
        org: None,
        permissions: Some(std::collections::BTreeSet::new()),
        expires_at: None,
    }
}

fn with_cookie(cookie: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    headers
}

/// A session as its holder sees it, in this org.
async fn view(
    state: &AppState,
    session: &model::Session,
    principal: &Principal,
    org: OrgId,
) -> Answer<Session> {
    let own = own_orgs(session);
    let everywhere = match &session.holder {
        Holder::User(_, roles) => {
            roles.iter().find(|role| role.org == PLATFORM).map(|role| role.role)
        }
        Holder::Token(principal, _) => principal.org.is_none().then_some(principal.role),
    };
    let orgs = match everywhere {
        None => own,
        Some(role) => every_org(state, role, &own).await?,
    };
    let named = if org == PLATFORM { None } else { state.app.get_org(org).await? };
    let email = match &session.holder {
        Holder::User(user, _) => Some(user.email.clone()),
        Holder::Token(..) => None,
    };
    let permissions = granted(principal.role, principal.permissions.as_ref());
    Ok(Session {
        principal: SessionPrincipal {
            id: principal.id.to_string(),
            name: principal.name.clone(),
            email,
        },
        org: named.map(|org| SessionOrg { id: org.id.to_string(), name: org.name }),
        orgs,
        role: principal.role,
        permissions: permissions.into_iter().collect(),
        projects: roles_in_projects(&principal.projects, principal.permissions.as_ref()),
        expires_at: session.expires_at,
    })
}

/// The orgs in which the holder has a role of its own.
fn own_orgs(session: &model::Session) -> Vec<RoleInOrg> {
    match &session.holder {
        Holder::User(_, roles) => roles
            .iter()
            .filter(|role| role.org != PLATFORM)
            .map(|role| RoleInOrg {
                id: role.org.to_string(),
                name: role.org_name.clone(),
                role: role.role,
            })
            .collect(),
        Holder::Token(principal, name) => principal
            .org
            .iter()
            .map(|org| RoleInOrg { id: org.to_string(), name: name.clone(), role: principal.role })
            .collect(),
    }
}

/// Every org, with the role of the platform where the holder has none of its own.
async fn every_org(state: &AppState, role: Role, own: &[RoleInOrg]) -> Answer<Vec<RoleInOrg>> {
    let all = state.app.list_orgs().await?;
    let all = all.into_iter().map(|org| {
        let id = org.id.to_string();
        let role = own.iter().find(|one| one.id == id).map_or(role, |one| one.role);
        RoleInOrg { id, name: org.name, role }
    });
    Ok(all.collect())
}
