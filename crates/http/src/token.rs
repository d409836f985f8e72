//! Tokens: create, list, revoke; and `whoami`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use trueup_api::Code;
use trueup_api::preview::OrPreview;
use trueup_api::schema::MAX_DAYS;
use trueup_api::token::{NewToken, Token, TokenList, TokenRequest, Whoami, WhoamiOrg};
use trueup_model::ProjectId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Role};
use trueup_model::token::{TokenSpec, check_name};
use trueup_rules::access::granted;
use trueup_rules::admit::FieldError;
use trueup_store::{CreatedToken, TokenRow};

use crate::AppState;
use crate::front::caller::{Caller, Scope};
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::member::roles_in_projects;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest, WriteRequest};

/// Shows the caller's token, role and permissions.
#[utoipa::path(get, path = "/v1/whoami", operation_id = "whoami", tag = "tokens",
    responses((status = 200, body = Whoami)))]
pub(crate) async fn whoami(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<Whoami>> {
    let Caller { principal, org, .. } = caller;
    let org = if org == PLATFORM { None } else { state.app.get_org(org).await? };
    let permissions = granted(principal.role, principal.permissions.as_ref());
    Ok(Json(Whoami {
        principal: principal.id.to_string(),
        token: principal.id.token().map(|token| token.to_string()),
        name: principal.name,
        role: principal.role,
        permissions: permissions.into_iter().collect(),
        projects: roles_in_projects(&principal.projects, principal.permissions.as_ref()),
        org: org.map(|org| WhoamiOrg { id: org.id.to_string(), name: org.name }),
        expires_at: principal.expires_at,
    }))
}

/// Lists the tokens of the org, without their secrets.
///
/// For an operator who names no org, the operator tokens.
#[utoipa::path(get, path = "/v1/tokens", operation_id = "token_list", tag = "tokens",
    responses((status = 200, body = TokenList)))]
pub(crate) async fn token_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<TokenList>> {
    caller.must(Permission::ManageTokens)?;
    let rows = state.app.list_tokens(caller.org).await?;
    Ok(Json(TokenList { items: rows.iter().map(view).collect() }))
}

/// Creates a token; the secret is shown only once.
///
/// It cannot have more permissions than the token that creates it, and cannot expire later.
#[utoipa::path(post, path = "/v1/tokens", operation_id = "token_create", tag = "tokens",
    params(DryRun), request_body = TokenRequest,
    extensions(("x-problems" = json!([Code::NameTaken]))),
    responses((status = 200, description = "a retry with the same key, without the secret; or a preview",
               body = OrPreview<NewToken>),
              (status = 201, body = NewToken)))]
pub(crate) async fn token_create(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: wanted, key }: Keyed<TokenRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageTokens)?;
    let now = change.now();
    let project = match &wanted.project {
        Some(named) => Some(project(&change, named).await?),
        None => None,
    };
    let wanted = TokenSpec { project, ..read(wanted, now)? };
    belongs(change.caller(), wanted.role)?;
    let created = change
        .app()
        .create_token(change.org(), &wanted, &change.context_with_key(key), now)
        .await?;
    let shown = new_token(&change, &created);
    change.created(created.text.is_some(), &shown)
}

/// Revokes a token immediately. Its open streams end, too.
#[utoipa::path(delete, path = "/v1/tokens/{token}", operation_id = "token_revoke", tag = "tokens",
    params(("token" = String, Path, description = "name or id"), DryRun),
    extensions(("x-problems" = json!([Code::LastOwner]))),
    responses((status = 200, description = "revoked, or a preview", body = OrPreview<Token>)))]
pub(crate) async fn token_revoke(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(token): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageTokens)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let row = change.app().revoke_token(org, &token, &context, now).await?;
    change.done(true, &view(&row))
}

/// A new token with its secret. In a dry run the token does not exist, so its secret is omitted.
pub(crate) fn new_token(change: &WriteRequest, token: &CreatedToken) -> NewToken {
    let shown = created(token);
    if change.is_dry() { NewToken { secret: None, ..shown } } else { shown }
}

/// Checks that the org fits the role: roles of the platform have no org, all others have one.
fn belongs(caller: &Caller, role: Role) -> Answer<()> {
    let in_platform = caller.org == PLATFORM;
    let detail = match (caller.principal.role.is_of_platform(), role.is_of_platform(), in_platform)
    {
        (true, true, false) => {
            "a token with a role of the platform belongs to no org; omit the header `Trueup-Org`"
        }
        (true, false, true) => "name the org of the new token in the header `Trueup-Org`",
        (true | false, _, _) => return Ok(()),
    };
    Err(Failure::new(Code::BadRequest, detail))
}

/// The project that a token is to be bound to.
async fn project(change: &WriteRequest, named: &str) -> Answer<ProjectId> {
    let found = change.app().find_project(change.org(), named).await?;
    Ok(found.ok_or_else(|| Failure::not_found("project"))?.project.id)
}

/// Parses a token request; reports all field errors at once.
fn read(wanted: TokenRequest, now: Timestamp) -> Answer<TokenSpec> {
    let mut errors = Vec::new();
    let mut field_error = |field: &str, message: String| {
        errors.push(FieldError { field: field.to_owned(), message });
    };
    if let Err(error) = check_name(&wanted.name) {
        field_error("name", error.to_string());
    }
    let role = wanted.role.parse::<Role>().ok();
    let known: &[Role] = if wanted.project.is_some() { &Role::OF_PROJECT } else { &Role::ALL };
    if role.is_none_or(|role| !known.contains(&role)) {
        let names: Vec<&str> = known.iter().map(|role| role.into_str()).collect();
        field_error("role", format!("must be one of {}", names.join(", ")));
    }
    let mut permissions = wanted.permissions.as_ref().map(|_| Default::default());
    for (index, text) in wanted.permissions.iter().flatten().enumerate() {
        match (text.parse::<Permission>().ok(), &mut permissions) {
            (Some(permission), Some(known)) => {
                std::collections::BTreeSet::insert(known, permission);
            }
            (Some(_), None) | (None, _) => {
                let known: Vec<&str> =
                    Permission::ALL.into_iter().map(|permission| permission.into_str()).collect();
                field_error(
                    &format!("permissions[{index}]"),
                    format!("must be one of {}", known.join(", ")),
                );
            }
        }
    }
    let expires_at = match (wanted.expires_in_days, wanted.expires_at) {
        (Some(_), Some(_)) => {
            field_error(
                "expires_at",
                "set either `expires_at` or `expires_in_days`, not both".to_owned(),
            );
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
            Ok(TokenSpec { name: wanted.name, role, project: None, permissions, expires_at })
        }
        Some(_) | None => Err(Failure::invalid(errors)),
    }
}

/// Truncated to the precision of Postgres, so that later reads return the same time.
fn microseconds(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_microsecond(at.as_microsecond()).ok()
}

fn view(row: &TokenRow) -> Token {
    let permissions = granted(row.role, row.permissions.as_ref());
    Token {
        id: row.id.to_string(),
        name: row.name.clone(),
        role: row.role,
        project: row.project.clone(),
        permissions: permissions.into_iter().collect(),
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: row.used_at,
    }
}

/// The only place that puts a token's secret into a response.
fn created(token: &CreatedToken) -> NewToken {
    let secret = token.text.as_ref().map(|text| text.reveal().to_owned());
    NewToken { token: view(&token.row), secret }
}
