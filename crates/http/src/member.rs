//! Members: list them, change their roles, remove them.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::member::{Member, MemberList, MemberRequest, RoleInProject};
use trueup_api::preview::OrPreview;
use trueup_api::schema::ProjectKey;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, ProjectRole, Role};
use trueup_model::user as model;
use trueup_rules::access::granted;
use trueup_rules::admit::FieldError;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::invitation::belongs;
use crate::write::request::{DryRun, PlatformWriteRequest, WriteRequest};

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
    // Nobody else may give one.
    if change.caller().principal.role.is_of_platform() {
        belongs(role, change.org() == PLATFORM)?;
    }
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

/// Gives a member a role in one project, besides the one in the org. It counts from the next request on.
#[utoipa::path(put, path = "/v1/members/{member}/projects/{project}", operation_id = "project_role_put",
    tag = "members",
    params(("member" = String, Path, description = "id (`usr_…`) or address"),
           ("project" = ProjectKey, Path, description = "name or id"), DryRun),
    request_body = MemberRequest,
    responses((status = 200, description = "given, unchanged, or a preview", body = OrPreview<Member>)))]
pub(crate) async fn project_role_put(
    change: WriteRequest,
    Path((member, project)): Path<(String, String)>,
    Body(wanted): Body<MemberRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let role = role_in_project(&wanted.role)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (member.as_str(), project.as_str());
    let put = change.app().put_project_role(org, of, role, &context, now).await?;
    change.done(put.changed, &view(&put.row))
}

/// Takes the role that a member has in one project. The role in the org stays.
#[utoipa::path(delete, path = "/v1/members/{member}/projects/{project}",
    operation_id = "project_role_delete", tag = "members",
    params(("member" = String, Path, description = "id (`usr_…`) or address"),
           ("project" = ProjectKey, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "taken, or a preview", body = OrPreview<Member>)))]
pub(crate) async fn project_role_delete(
    change: WriteRequest,
    Path((member, project)): Path<(String, String)>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (member.as_str(), project.as_str());
    let row = change.app().delete_project_role(org, of, &context, now).await?;
    change.done(true, &view(&row))
}

/// Parses a role that can be given in a project.
pub(crate) fn role_in_project(text: &str) -> Answer<Role> {
    let role = role_in(text)?;
    if Role::OF_PROJECT.contains(&role) {
        return Ok(role);
    }
    let known: Vec<&str> = Role::OF_PROJECT.into_iter().map(|role| role.into_str()).collect();
    let message = format!("must be one of {} in a project", known.join(", "));
    Err(Failure::invalid(vec![FieldError { field: "role".to_owned(), message }]))
}

/// Roles in projects as they are shown.
pub(crate) fn roles_in_projects(
    roles: &[ProjectRole],
    narrowed: Option<&BTreeSet<Permission>>,
) -> Vec<RoleInProject> {
    let shown = |one: &ProjectRole| RoleInProject {
        id: one.project.to_string(),
        name: one.name.clone(),
        role: one.role,
        permissions: granted(one.role, narrowed).into_iter().collect(),
    };
    roles.iter().map(shown).collect()
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
        projects: roles_in_projects(&member.projects, None),
        joined_at: member.joined_at,
    }
}
