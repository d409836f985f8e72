//! Members: list them, change their roles, remove them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::member::{Member, MemberList, MemberRequest};
use trueup_api::preview::OrPreview;
use trueup_model::principal::{Permission, Role};
use trueup_model::user as model;
use trueup_rules::admit::FieldError;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists the members of the org.
///
/// For an operator or auditor who names no org, the people with a role of the platform.
#[utoipa::path(get, path = "/v1/members", operation_id = "member_list", tag = "members",
    responses((status = 200, body = MemberList)))]
pub(crate) async fn member_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<MemberList>> {
    caller.must(Permission::Read)?;
    let members = state.app.list_members(caller.org).await?;
    Ok(Json(MemberList { items: members.iter().map(view).collect() }))
}

/// Gives a member another role. It counts from the next request on.
#[utoipa::path(put, path = "/v1/members/{member}", operation_id = "member_put", tag = "members",
    params(("member" = String, Path, description = "id (`usr_…`) or address"), DryRun),
    request_body = MemberRequest,
    extensions(("x-problems" = json!([Code::LastOwner]))),
    responses((status = 200, description = "changed, unchanged, or a preview", body = OrPreview<Member>)))]
pub(crate) async fn member_put(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(member): Path<String>,
    Body(wanted): Body<MemberRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let role = role_in(&wanted.role)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let put = change.app().put_member(org, &member, role, &context, now).await?;
    change.done(put.changed, &view(&put.row))
}

/// Removes a member at once, with the tokens that they created. Members may also remove themselves.
#[utoipa::path(delete, path = "/v1/members/{member}", operation_id = "member_delete", tag = "members",
    params(("member" = String, Path, description = "id (`usr_…`) or address"), DryRun),
    extensions(("x-problems" = json!([Code::LastOwner]))),
    responses((status = 200, description = "removed, or a preview", body = OrPreview<Member>)))]
pub(crate) async fn member_delete(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(member): Path<String>,
) -> Answer<Response> {
    let leaves = change.caller().principal.id.to_string() == member;
    if !leaves {
        change.must(Permission::ManageMembers)?;
    }
    let (org, context, now) = (change.org(), change.context(), change.now());
    let removed = change.app().remove_member(org, &member, &context, now).await?;
    change.done(true, &view(&removed))
}

/// Parses a role.
pub(crate) fn role_in(text: &str) -> Answer<Role> {
    text.parse().map_err(|_| {
        let known: Vec<&str> = Role::ALL.into_iter().map(|role| role.into_str()).collect();
        let message = format!("must be one of {}", known.join(", "));
        Failure::invalid(vec![FieldError { field: "role".to_owned(), message }])
    })
}

fn view(member: &model::Member) -> Member {
    Member {
        id: member.user.id.to_string(),
        name: member.user.name.clone(),
        email: member.user.email.clone(),
        role: member.role,
        joined_at: member.joined_at,
    }
}
