//! Who is calling: one bearer token, looked up afresh for each request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_rules::access;
use trueup_store::Error;
use trueup_store::door::Asker;

use crate::problem::{Answer, Failure};
use crate::{Door, trace};

/// An authenticated caller and the org the request is about.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) org: OrgId,
    token: String,
}

impl Caller {
    /// Refuses what the caller's role does not allow.
    pub(crate) fn must(&self, permission: Permission) -> Answer<()> {
        if access::allows(&self.principal, self.org, permission) {
            Ok(())
        } else {
            let role = self.principal.role.as_str();
            Err(Failure::new(
                Code::Forbidden,
                format!("the role `{role}` does not include this; ask an owner"),
            ))
        }
    }

    /// For the door's record.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker::new(&self.principal, trace::current())
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
        let (principal, token) = authenticate(&parts.headers, door).await?;
        let org = match principal.org {
            Some(org) => org,
            None => named_org(&parts.headers, door).await?,
        };
        Ok(Self { principal, org, token })
    }
}

/// An operator, for what belongs to no org.
#[derive(Debug)]
pub(crate) struct Operator;

impl FromRequestParts<Door> for Operator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Failure> {
        let (principal, _) = authenticate(&parts.headers, door).await?;
        if principal.role == Role::Operator {
            Ok(Self)
        } else {
            Err(Failure::new(Code::Forbidden, "this is for operators of the platform"))
        }
    }
}

async fn authenticate(headers: &HeaderMap, door: &Door) -> Answer<(Principal, String)> {
    let token = bearer(headers).ok_or_else(unauthenticated)?;
    let principal = door.app.authenticate(token, door.clock.now()).await?;
    Ok((principal.ok_or_else(unauthenticated)?, token.to_owned()))
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

async fn named_org(headers: &HeaderMap, door: &Door) -> Answer<OrgId> {
    let wanted = headers.get("trueup-org").and_then(|value| value.to_str().ok());
    let wanted = wanted.ok_or_else(|| {
        Failure::new(Code::BadRequest, "an operator names the org with the header `Trueup-Org`")
    })?;
    door.app.find_org(wanted).await?.ok_or_else(|| Failure::not_found("org"))
}
