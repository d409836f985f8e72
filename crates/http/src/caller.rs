//! Who is calling: one bearer token, looked up afresh for each request.

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_rules::access;
use trueup_store::Error;
use trueup_store::door::Asker;

use crate::problem::{Answer, Failure};
use crate::{Door, lane, trace};

/// Names the org of an operator's request.
const ORG: &str = "trueup-org";

/// An authenticated caller and the org the request is about.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) org: OrgId,
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
    /// Refuses what the caller's role does not allow.
    pub(crate) fn must(&self, permission: Permission) -> Answer<()> {
        if access::allows(&self.principal, self.org, permission) {
            return Ok(());
        }
        let (wanted, role) = (permission.as_str(), access::least_role(permission).as_str());
        Err(Failure::new(
            Code::Forbidden,
            format!("this takes the permission `{wanted}`; use a token with it (role `{role}`)"),
        ))
    }

    /// For the door's record.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker::new(&self.principal, trace::current())
    }

    /// What the caller came with. It is never printed.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether the token is still good: asked again while a stream is open.
    pub(crate) async fn is_still_valid(&self, door: &Door) -> Result<bool, Error> {
        let principal = door.app.authenticate(&self.token, door.clock.now()).await?;
        Ok(principal.as_ref() == Some(&self.principal))
    }
}

impl FromRequestParts<Door> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, door).await?;
        if caller.org == PLATFORM && !parts.headers.contains_key(ORG) {
            let detail = "an operator names the org with the header `Trueup-Org`";
            return Err(Failure::new(Code::BadRequest, detail));
        }
        Ok(caller)
    }
}

/// A caller whose request may be about the platform itself: an operator who names no org.
#[derive(Debug)]
pub(crate) struct Scope(pub(crate) Caller);

impl FromRequestParts<Door> for Scope {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Failure> {
        let token = bearer(&parts.headers).ok_or_else(unauthenticated)?.to_owned();
        let knock = lane::knock(parts, &token).await?;
        let principal = authenticate(parts, door, &token).await?;
        let org = match principal.org {
            Some(org) => org,
            None => named_org(&parts.headers, door).await?.unwrap_or(PLATFORM),
        };
        lane::enter(parts, org, knock).await?;
        Ok(Self(Caller { principal, org, token }))
    }
}

/// An operator who only looks.
#[derive(Debug)]
pub(crate) struct Onlooker;

impl FromRequestParts<Door> for Onlooker {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, door).await?;
        let principal = &caller.principal;
        if principal.role == Role::Operator && access::allows(principal, PLATFORM, Permission::Read)
        {
            Ok(Self)
        } else {
            Err(Failure::new(Code::Forbidden, "this is for operators of the platform"))
        }
    }
}

async fn authenticate(parts: &Parts, door: &Door, token: &str) -> Answer<Principal> {
    let principal = door.app.authenticate(token, door.clock.now()).await?;
    match &principal {
        Some(good) => lane::remember(parts, token, good.org.unwrap_or(PLATFORM)),
        None => lane::forget(parts, token),
    }
    principal.ok_or_else(unauthenticated)
}

fn unauthenticated() -> Failure {
    Failure::new(
        Code::Unauthenticated,
        "send `Authorization: Bearer TOKEN` with a token that is valid here",
    )
}

/// The one bearer token; two headers are as good as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The org that an operator names, if any; one that there is not is an error.
async fn named_org(headers: &HeaderMap, door: &Door) -> Answer<Option<OrgId>> {
    let mut named = headers.get_all(ORG).iter();
    let Some(wanted) = named.next() else { return Ok(None) };
    if named.next().is_some() {
        let detail = "`Trueup-Org` is there more than once; send it once";
        return Err(Failure::new(Code::BadRequest, detail));
    }
    let wanted = wanted.to_str().map_err(|_| Failure::not_found("org"))?;
    let found = door.app.find_org(wanted).await?;
    found.map(Some).ok_or_else(|| Failure::not_found("org"))
}
