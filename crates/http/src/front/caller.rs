//! Authentication: one bearer token, looked up in the database on each request.

use std::fmt;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_model::name::MAX_LEN;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_rules::access;
use trueup_store::door::RequestContext;

use crate::AppState;
use crate::front::problem::{Answer, Failure};
use crate::front::{concurrency, trace};

/// The header that names the org of a request; required from operators, whose tokens have none.
const ORG: &str = "trueup-org";

/// An authenticated caller and the org the request is about.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) org: OrgId,
    /// When the token was looked up, by the monotonic clock.
    pub(crate) authenticated_at: Duration,
    token: String,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (principal, org) = (&self.principal, &self.org);
        f.debug_struct("Caller")
            .field("principal", principal)
            .field("org", org)
            .finish_non_exhaustive()
    }
}

impl Caller {
    /// Checks that the caller has a permission.
    pub(crate) fn must(&self, permission: Permission) -> Answer<()> {
        if access::allows(&self.principal, self.org, permission) {
            return Ok(());
        }
        let (wanted, role) = (permission.into_str(), access::least_role(permission).into_str());
        Err(Failure::new(
            Code::Forbidden,
            format!("permission `{wanted}` required; use a token with it (role `{role}`)"),
        ))
    }

    /// The principal and trace id, for the store.
    pub(crate) fn context(&self) -> RequestContext<'_> {
        RequestContext::new(&self.principal, trace::current())
    }

    /// The caller's token. It is never printed.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, state).await?;
        if caller.org == PLATFORM && !parts.headers.contains_key(ORG) {
            let detail = "an operator token needs an org: name one in the header `Trueup-Org`";
            return Err(Failure::new(Code::BadRequest, detail));
        }
        Ok(caller)
    }
}

/// A caller whose request may concern the platform itself: an operator may name no org.
#[derive(Debug)]
pub(crate) struct Scope(pub(crate) Caller);

impl FromRequestParts<AppState> for Scope {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let token = bearer(&parts.headers).ok_or_else(unauthenticated)?.to_owned();
        let lookup = concurrency::admit_lookup(parts, &token).await?;
        let authenticated_at = state.clock.monotonic();
        let principal = authenticate(parts, state, &token).await?;
        let org = match principal.org {
            Some(own) => own_org(&parts.headers, own, state).await?,
            None => named_org(&parts.headers, state).await?.unwrap_or(PLATFORM),
        };
        concurrency::enter(parts, org, lookup).await?;
        Ok(Self(Caller { principal, org, authenticated_at, token }))
    }
}

/// A caller with an operator token that may read the platform.
#[derive(Debug)]
pub(crate) struct Operator;

impl FromRequestParts<AppState> for Operator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, state).await?;
        let principal = &caller.principal;
        if principal.role == Role::Operator && access::allows(principal, PLATFORM, Permission::Read)
        {
            Ok(Self)
        } else {
            Err(Failure::new(Code::Forbidden, "operator token required"))
        }
    }
}

async fn authenticate(parts: &Parts, state: &AppState, token: &str) -> Answer<Principal> {
    let principal = state.app.authenticate(token, state.clock.now()).await?;
    match &principal {
        Some(good) => concurrency::remember(parts, token, good.org.unwrap_or(PLATFORM)),
        None => concurrency::forget(parts, token),
    }
    principal.ok_or_else(unauthenticated)
}

fn unauthenticated() -> Failure {
    Failure::new(Code::Unauthenticated, "send `Authorization: Bearer TOKEN` with a valid token")
}

/// The bearer token; `None` if the header is missing or repeated.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The org of a token that belongs to one. The request may name it; naming another is an error.
///
/// Ignoring the name would act in an org that the caller did not mean. The response does not say
/// whether the other org exists.
async fn own_org(headers: &HeaderMap, own: OrgId, state: &AppState) -> Answer<OrgId> {
    let Some(wanted) = org_header(headers)? else { return Ok(own) };
    if state.app.find_org(wanted).await? == Some(own) {
        return Ok(own);
    }
    let name = state.app.get_org(own).await?.map_or_else(|| own.to_string(), |org| org.name);
    let wanted: String = wanted.chars().take(MAX_LEN).collect();
    let detail = format!(
        "this token belongs to org `{name}` and cannot act in org `{wanted}`; remove `--org` (the \
         header `Trueup-Org`), or use a token of that org"
    );
    Err(Failure::new(Code::Forbidden, detail))
}

/// The org that an operator names, if any; an unknown org is an error.
async fn named_org(headers: &HeaderMap, state: &AppState) -> Answer<Option<OrgId>> {
    let Some(wanted) = org_header(headers)? else { return Ok(None) };
    let found = state.app.find_org(wanted).await?;
    found.map(Some).ok_or_else(|| Failure::not_found("org"))
}

/// The text of the header that names an org, if there is one.
fn org_header(headers: &HeaderMap) -> Answer<Option<&str>> {
    let mut named = headers.get_all(ORG).iter();
    let Some(wanted) = named.next() else { return Ok(None) };
    if named.next().is_some() {
        let detail = "the header `Trueup-Org` is repeated; send it once";
        return Err(Failure::new(Code::BadRequest, detail));
    }
    wanted.to_str().map(Some).map_err(|_| Failure::not_found("org"))
}
