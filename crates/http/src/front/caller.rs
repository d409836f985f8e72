//! Authentication: one token or one session, looked up in the database on each request.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use trueup_api::Code;
use trueup_model::name::MAX_LEN;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, ProjectRole};
use trueup_model::session::{Holder, PREFIX, Session};
use trueup_model::{OrgId, ProjectId};
use trueup_rules::access::{self, Decision, Reach, Resource};
use trueup_store::door::RequestContext;
use trueup_store::{App, LiveCredential, project_roles_digest};

use crate::AppState;
use crate::front::concurrency::Lane;
use crate::front::cookie::{Sent, SessionCookie};
use crate::front::problem::{Answer, Failure};
use crate::front::{concurrency, same_site, trace};

/// The header that names the org of a request; required from operators, and from users with more
/// than one org.
const ORG: &str = "trueup-org";

/// An authenticated caller and the org the request is about.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) org: OrgId,
    /// Where in the org the path leads.
    place: Place,
    /// When the credential was looked up, by the monotonic clock.
    pub(crate) authenticated_at: Duration,
    /// The token or session, as streams check it.
    pub(crate) live: LiveCredential,
    /// When it ends, if it does.
    pub(crate) ends_at: Option<Timestamp>,
    secret: String,
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
        let decision = self.decide(permission, None);
        if decision.allowed() { Ok(()) } else { Err(forbidden(&decision)) }
    }

    /// Checks that the caller has a permission somewhere in the org: for what all projects share.
    pub(crate) fn must_somewhere(&self, permission: Permission) -> Answer<()> {
        match access::reach(&self.principal, permission, self.org) {
            Reach::Projects(only) if only.is_empty() => self.must(permission),
            Reach::Org | Reach::Projects(_) => Ok(()),
        }
    }

    /// The app for what the caller has a permission for: behind the wall around the projects that their
    /// roles reach.
    ///
    /// In a path that leads to another project the answer is that of a project that does not exist.
    pub(crate) fn within(&self, app: &App, permission: Permission) -> Answer<App> {
        let reach = access::reach(&self.principal, permission, self.org);
        let Reach::Projects(only) = &reach else { return Ok(app.clone()) };
        match self.place {
            Place::Project(project) if only.contains(&project) => {
                Ok(app.within(&Reach::Projects(BTreeSet::from([project]))))
            }
            Place::Project(project) => Err(forbidden(&self.decide(permission, Some(project)))),
            Place::Elsewhere if !self.decide(Permission::Read, None).allowed() => {
                Err(Failure::not_found("project"))
            }
            Place::Org if !only.is_empty() => Ok(app.within(&reach)),
            Place::Elsewhere | Place::Org => Err(forbidden(&self.decide(permission, None))),
        }
    }

    /// Decides about the org, or one of its projects.
    pub(crate) fn decide(&self, permission: Permission, project: Option<ProjectId>) -> Decision {
        access::decide(&self.principal, permission, Resource { org: self.org, project })
    }

    /// The project with this name or id, if the caller has a role in it.
    pub(crate) fn own_project(&self, wanted: &str) -> Option<ProjectId> {
        let id = wanted.parse().ok();
        let is_it = |one: &&ProjectRole| {
            Some(one.project) == id || one.name.as_deref().is_some_and(|name| name == wanted)
        };
        self.principal.projects.iter().find(is_it).map(|one| one.project)
    }

    /// Where the path of a request leads; it matters only to those with roles in projects.
    fn find_place(&mut self, params: Option<&RawPathParams>) {
        let mut params = params.into_iter().flatten();
        let named = params.find_map(|(name, value)| (name == "project").then_some(value));
        self.place = match named {
            Some(named) if !self.principal.projects.is_empty() => {
                self.own_project(named).map_or(Place::Elsewhere, Place::Project)
            }
            Some(_) | None => Place::Org,
        };
    }
    /// Whether the caller may see what services contain.
    pub(crate) fn reads_content(&self) -> bool {
        let reads = |project| self.decide(Permission::ReadContent, project).allowed();
        match (self.place, access::reach(&self.principal, Permission::Read, self.org)) {
            (Place::Project(project), _) => reads(Some(project)),
            // What is shown may be of any of them.
            (Place::Org | Place::Elsewhere, Reach::Projects(only)) if !only.is_empty() => {
                only.into_iter().all(|project| reads(Some(project)))
            }
            (Place::Org | Place::Elsewhere, Reach::Org | Reach::Projects(_)) => reads(None),
        }
    }

    /// The principal and trace id, for the store.
    pub(crate) fn context(&self) -> RequestContext<'_> {
        RequestContext::new(&self.principal, trace::current())
    }

    /// The caller's token or session. It is never printed.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }
}

/// Where in an org the path of a request leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// To no project, or the caller has no roles in projects.
    Org,
    /// To a project that the caller has a role in.
    Project(ProjectId),
    /// To another project, or to none that exists.
    Elsewhere,
}

/// The refusal of a decision.
fn forbidden(decision: &Decision) -> Failure {
    let permission = decision.permission;
    let roles: Vec<String> =
        access::roles_with(permission).map(|role| format!("`{}`", role.into_str())).collect();
    let (wanted, roles) = (permission.into_str(), roles.join(", "));
    Failure::new(
        Code::Forbidden,
        format!("permission `{wanted}` required: {decision}; roles with it are {roles}"),
    )
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, state).await?;
        if caller.org == PLATFORM && !parts.headers.contains_key(ORG) {
            let detail = "a role of the platform needs an org: name one with `--org` (the header \
                          `Trueup-Org`)";
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
        let sent = Credential::sent(parts)?;
        let lookup = concurrency::admit_lookup(parts, &sent.secret).await?;
        let authenticated_at = state.clock.monotonic();
        let known = authenticate(parts, state, &sent).await?;
        let (principal, org) = match &known {
            Known::Token(principal) => of_token(principal, &parts.headers, state).await?,
            Known::Session(session) => {
                let chosen = in_org(session, &parts.headers, state).await?;
                chosen.ok_or_else(must_name_org)?
            }
        };
        concurrency::enter(parts, known.lane(org), lookup).await?;
        let live = LiveCredential {
            id: known.id(),
            home: principal.home(),
            role: principal.role,
            projects: project_roles_digest(&principal.projects),
        };
        let ends_at = match &known {
            Known::Token(principal) => principal.expires_at,
            Known::Session(session) => Some(session.expires_at),
        };
        let (secret, place) = (sent.secret, Place::Org);
        let mut caller = Caller { principal, org, place, authenticated_at, live, ends_at, secret };
        caller.find_place(RawPathParams::from_request_parts(parts, state).await.ok().as_ref());
        Ok(Self(caller))
    }
}

/// Whoever signed in, by cookie or with the session's secret as a bearer token.
#[derive(Debug)]
pub(crate) struct SignedIn {
    pub(crate) session: Session,
    /// In the named org; without a name in the first one.
    pub(crate) principal: Principal,
    pub(crate) org: OrgId,
}

impl FromRequestParts<AppState> for SignedIn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let sent = Credential::sent(parts)?;
        if !sent.is_session {
            return Err(unauthenticated());
        }
        let lookup = concurrency::admit_lookup(parts, &sent.secret).await?;
        let Known::Session(session) = authenticate(parts, state, &sent).await? else {
            return Err(unauthenticated());
        };
        let (principal, org) = match in_org(&session, &parts.headers, state).await? {
            Some(chosen) => chosen,
            None => session.first().ok_or_else(unauthenticated)?,
        };
        concurrency::enter(parts, lane_of(&session, Some(org)), lookup).await?;
        Ok(Self { session, principal, org })
    }
}

/// A caller that may read the platform.
#[derive(Debug)]
pub(crate) struct PlatformReader;

impl FromRequestParts<AppState> for PlatformReader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, state).await?;
        caller.must(Permission::ReadPlatform).map(|()| Self)
    }
}

/// A token or the secret of a session, as it was sent.
struct Credential {
    secret: String,
    is_session: bool,
}

impl Credential {
    /// What a request sent. A request with the cookie must come from our own pages.
    fn sent(parts: &Parts) -> Answer<Self> {
        match (
            SessionCookie::of(parts).sent(parts),
            parts.headers.contains_key(header::AUTHORIZATION),
        ) {
            (Sent::Nothing, _) => {
                let secret = bearer(&parts.headers).ok_or_else(unauthenticated)?.to_owned();
                let is_session = secret.starts_with(PREFIX);
                Ok(Self { secret, is_session })
            }
            (Sent::One(_) | Sent::Several, true) => {
                let detail = "send either the cookie of a session or the header `Authorization`";
                Err(Failure::new(Code::BadRequest, detail))
            }
            (Sent::Several, false) => Err(unauthenticated()),
            (Sent::One(secret), false) => {
                same_site::check(parts)?;
                Ok(Self { secret, is_session: true })
            }
        }
    }
}

/// An authenticated token or session.
enum Known {
    Token(Principal),
    Session(Session),
}

impl Known {
    fn id(&self) -> uuid::Uuid {
        match self {
            Self::Token(principal) => principal.id.uuid(),
            Self::Session(session) => session.id.uuid(),
        }
    }

    /// The lane of its requests until they name an org.
    fn home_lane(&self) -> Lane {
        match self {
            Self::Token(principal) => Lane::of(principal.home(), principal.home()),
            Self::Session(session) => lane_of(session, None),
        }
    }

    /// The lane of a request about this org.
    fn lane(&self, org: OrgId) -> Lane {
        match self {
            Self::Token(principal) => Lane::of(principal.home(), org),
            Self::Session(session) => lane_of(session, Some(org)),
        }
    }
}

/// The lane of a session's requests about this org. Whoever has a role of the platform gets in, also
/// as a member of a flooding org.
fn lane_of(session: &Session, org: Option<OrgId>) -> Lane {
    match &session.holder {
        Holder::Token(principal, _) => {
            let home = principal.home();
            Lane::of(home, org.unwrap_or(home))
        }
        Holder::User(_, roles) if roles.iter().any(|role| role.org == PLATFORM) => Lane::Operators,
        Holder::User(_, roles) => {
            let first = roles.first().map_or(PLATFORM, |role| role.org);
            Lane::Tenant(org.unwrap_or(first))
        }
    }
}

async fn authenticate(parts: &Parts, state: &AppState, sent: &Credential) -> Answer<Known> {
    let (secret, now) = (&sent.secret, state.clock.now());
    let known = if sent.is_session {
        state.app.find_session(secret, now).await?.map(Known::Session)
    } else {
        state.app.authenticate(secret, now).await?.map(Known::Token)
    };
    match &known {
        Some(good) => {
            concurrency::remember(parts, secret, good.home_lane());
        }
        None => concurrency::forget(parts, secret),
    }
    known.ok_or_else(unauthenticated)
}

pub(crate) fn unauthenticated() -> Failure {
    Failure::new(
        Code::Unauthenticated,
        "send `Authorization: Bearer TOKEN` with a valid token, or sign in",
    )
}

fn must_name_org() -> Failure {
    let detail =
        "you are a member of several orgs; name one with `--org` (the header `Trueup-Org`)";
    Failure::new(Code::BadRequest, detail)
}

/// The bearer token; `None` if the header is missing or repeated.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A token's principal in the org of its request.
async fn of_token(
    principal: &Principal,
    headers: &HeaderMap,
    state: &AppState,
) -> Answer<(Principal, OrgId)> {
    let org = match principal.org {
        Some(own) => own_org(headers, own, state).await?,
        None => named_org(headers, state).await?.unwrap_or(PLATFORM),
    };
    Ok((principal.clone(), org))
}

/// The holder of a session in the org of its request; `None` if the request must name one.
///
/// A role in an org itself counts before a role of the platform.
async fn in_org(
    session: &Session,
    headers: &HeaderMap,
    state: &AppState,
) -> Answer<Option<(Principal, OrgId)>> {
    let (user, roles) = match &session.holder {
        Holder::Token(principal, _) => return of_token(principal, headers, state).await.map(Some),
        Holder::User(user, roles) => (user, roles),
    };
    let of_platform = roles.iter().find(|role| role.org == PLATFORM);
    let Some(wanted) = org_header(headers)? else {
        return Ok(match (of_platform, roles.as_slice()) {
            (Some(role), _) => Some((role.principal(user), PLATFORM)),
            (None, [only]) => Some((only.principal(user), only.org)),
            (None, _) => None,
        });
    };
    let found = state.app.find_org(wanted).await?;
    let own = roles.iter().find(|role| Some(role.org) == found);
    match (own, of_platform, found) {
        (Some(role), _, Some(org)) => Ok(Some((role.principal(user), org))),
        (_, Some(role), Some(org)) => Ok(Some((role.principal(user), org))),
        (_, Some(_), None) => Err(Failure::not_found("org")),
        (_, None, _) => {
            let wanted: String = wanted.chars().take(MAX_LEN).collect();
            let detail = format!(
                "you are not a member of org `{wanted}`; name one of yours in `--org` (the header \
                 `Trueup-Org`)"
            );
            Err(Failure::new(Code::Forbidden, detail))
        }
    }
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
