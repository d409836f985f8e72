//! Tokens: make, list, revoke; and who is asking.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use trueup_api::preview::OrPreview;
use trueup_api::token::{NewToken, Token, TokenList, TokenRequest, Whoami, WhoamiOrg};
use trueup_api::{Code, Problem};
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Role};
use trueup_model::token::{TokenSpec, check_name};
use trueup_rules::access::granted;
use trueup_rules::admit::FieldError;
use trueup_store::CreatedToken;

use crate::front::caller::{Caller, Scope};
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest, WriteRequest};
use crate::{AppState, view};

/// Ten years: longer is the same as for ever, and can be asked for by leaving it out.
const MAX_DAYS: u32 = 3650;

/// Says who is asking, and what they may do.
#[utoipa::path(get, path = "/v1/whoami", operation_id = "whoami", tag = "tokens",
    responses((status = 200, body = Whoami), (status = "4XX", body = Problem)))]
pub(crate) async fn whoami(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<Whoami>> {
    let Caller { principal, org, .. } = caller;
    let org = if org == PLATFORM { None } else { state.app.get_org(org).await? };
    let permissions = granted(principal.role, principal.permissions.as_ref());
    Ok(Json(Whoami {
        token: principal.token.to_string(),
        name: principal.name,
        role: principal.role.as_str().to_owned(),
        permissions: permissions.iter().map(|one| one.as_str().to_owned()).collect(),
        org: org.map(|org| WhoamiOrg { id: org.id.to_string(), name: org.name }),
        expires_at: principal.expires_at,
    }))
}

/// Lists the tokens of the org, never with their secrets; the operators', where an operator names
/// no org.
#[utoipa::path(get, path = "/v1/tokens", operation_id = "token_list", tag = "tokens",
    responses((status = 200, body = TokenList), (status = "4XX", body = Problem)))]
pub(crate) async fn token_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<TokenList>> {
    caller.must(Permission::ManageTokens)?;
    let rows = state.app.list_tokens(caller.org).await?;
    Ok(Json(TokenList { items: rows.iter().map(view::token).collect() }))
}

/// Makes a token and shows its secret this once. It never has more than the one that makes it.
#[utoipa::path(post, path = "/v1/tokens", operation_id = "token_create", tag = "tokens",
    params(DryRun), request_body = TokenRequest,
    responses((status = 200, description = "a repeat, whose secret was shown before; or a preview",
               body = OrPreview<NewToken>),
              (status = 201, body = NewToken), (status = "4XX", body = Problem)))]
pub(crate) async fn token_create(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: wanted, repeat }: Keyed<TokenRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageTokens)?;
    let now = change.now();
    let wanted = read(wanted, now)?;
    belongs(change.caller(), wanted.role)?;
    let minted =
        change.app().create_token(change.org(), &wanted, &change.asker_again(repeat), now).await?;
    let shown = new_token(&change, &minted);
    change.created(minted.text.is_some(), &shown)
}

/// Revokes a token at once, by name or id. Streams that it opened end, too.
#[utoipa::path(delete, path = "/v1/tokens/{token}", operation_id = "token_revoke", tag = "tokens",
    params(("token" = String, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "it is revoked, or a preview", body = OrPreview<Token>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn token_revoke(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(token): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageTokens)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let row = change.app().revoke_token(org, &token, &context, now).await?;
    change.done(true, &view::token(&row))
}

/// A new token with its secret, shown this once. One that is only rehearsed opens nothing, so its
/// secret is not shown at all.
pub(crate) fn new_token(change: &WriteRequest, minted: &CreatedToken) -> NewToken {
    let shown = view::new_token(minted);
    if change.is_dry() { NewToken { secret: None, ..shown } } else { shown }
}

/// An operator's token belongs to no org and every other one to one: an operator says which.
fn belongs(caller: &Caller, role: Role) -> Answer<()> {
    let platform = caller.org == PLATFORM;
    match (caller.principal.role, role, platform) {
        (Role::Operator, Role::Operator, false) => Err(Failure::new(
            Code::BadRequest,
            "an operator's token belongs to no org; leave the header `Trueup-Org` out",
        )),
        (Role::Operator, Role::Viewer | Role::Developer | Role::Owner, true) => Err(Failure::new(
            Code::BadRequest,
            "name the org of the token with the header `Trueup-Org`",
        )),
        (Role::Viewer | Role::Developer | Role::Owner | Role::Operator, _, _) => Ok(()),
    }
}

/// Reads all of it, and says everything that is wrong with it at once.
fn read(wanted: TokenRequest, now: Timestamp) -> Answer<TokenSpec> {
    let mut errors = Vec::new();
    let mut field_error = |field: &str, message: String| {
        errors.push(FieldError { field: field.to_owned(), message });
    };
    if let Err(error) = check_name(&wanted.name) {
        field_error("name", error.to_string());
    }
    let role = Role::find(&wanted.role);
    if role.is_none() {
        let known: Vec<&str> = Role::ALL.into_iter().map(Role::as_str).collect();
        field_error("role", format!("must be one of {}", known.join(", ")));
    }
    let mut permissions = wanted.permissions.as_ref().map(|_| Default::default());
    for (index, text) in wanted.permissions.iter().flatten().enumerate() {
        match (Permission::find(text), &mut permissions) {
            (Some(permission), Some(known)) => {
                std::collections::BTreeSet::insert(known, permission);
            }
            (Some(_), None) | (None, _) => {
                let known: Vec<&str> =
                    Permission::ALL.into_iter().map(Permission::as_str).collect();
                field_error(
                    &format!("permissions[{index}]"),
                    format!("must be one of {}", known.join(", ")),
                );
            }
        }
    }
    let expires_at = match (wanted.expires_in_days, wanted.expires_at) {
        (Some(_), Some(_)) => {
            field_error("expires_at", "say this or `expires_in_days`, not both".to_owned());
            None
        }
        (Some(days), None) if days == 0 || days > MAX_DAYS => {
            field_error("expires_in_days", format!("must be from 1 to {MAX_DAYS}"));
            None
        }
        (Some(days), None) => {
            now.checked_add(SignedDuration::from_hours(24 * i64::from(days))).ok()
        }
        (None, end) => end.and_then(microseconds),
    };
    match role {
        Some(role) if errors.is_empty() => {
            Ok(TokenSpec { name: wanted.name, role, permissions, expires_at })
        }
        Some(_) | None => Err(Failure::invalid(errors)),
    }
}

/// As Postgres keeps it: what is answered now is what is read later.
fn microseconds(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_microsecond(at.as_microsecond()).ok()
}
