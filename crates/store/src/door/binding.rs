//! Gives and takes the roles that members have in single projects.

use jiff::Timestamp;
use trueup_model::event::{Fact, ProjectRoleGranted, ProjectRoleRevoked};
use trueup_model::id::{OrgId, ProjectId, UserId};
use trueup_model::principal::Role;
use trueup_model::user::Member;
use trueup_rules::access::may_give;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext, member};
use crate::App;
use crate::db::clock::sql;
use crate::db::row::read;

impl App {
    /// Gives a member a role in one project, instead of another one there.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_project_role(
        &self,
        org: OrgId,
        (member, project): (&str, &str),
        role: Role,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Member>, Refusal> {
        self.write(org, context, now, |write| put(write, (member, project), role)).await
    }

    /// Takes the role that a member has in one project.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_project_role(
        &self,
        org: OrgId,
        (member, project): (&str, &str),
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Member, Refusal> {
        self.write(org, context, now, |write| delete(write, (member, project))).await
    }
}

async fn put(
    mut write: Write<'_>,
    (wanted, named): (&str, &str),
    role: Role,
) -> Result<Accepted<Member>, Refusal> {
    let (target, _) = member::lock(&mut write, wanted).await?;
    let (project, _) = project(&mut write, named).await?;
    if target.projects.iter().any(|one| (one.project, one.role) == (project, role)) {
        return write.finish(Accepted { row: target, changed: false }).await;
    }
    if !may_give(write.context.principal, role) {
        return Err(Refusal::RoleNotGiven);
    }
    let principal = write.principal();
    give(&mut write, target.user.id, project, role, principal).await?;
    let (row, _) = member::lock(&mut write, wanted).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn delete(mut write: Write<'_>, (wanted, named): (&str, &str)) -> Result<Member, Refusal> {
    let (target, _) = member::lock(&mut write, wanted).await?;
    let (project, _) = project(&mut write, named).await?;
    let user = target.user.id;
    let taken: Option<(String,)> = sqlx::query_as(
        "update role_bindings set removed_at = $3
         where principal_id = $1 and project_id = $2 and removed_at is null returning role",
    )
    .bind(user.uuid())
    .bind(project.uuid())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await?;
    let (role,) = taken.ok_or(Refusal::NotFound("role"))?;
    let (role, principal) = (read("role", role)?, write.principal());
    let fact = ProjectRoleRevoked { user, project, role, principal };
    write.record(Fact::ProjectRoleRevoked(fact)).await?;
    let (row, _) = member::lock(&mut write, wanted).await?;
    write.finish(row).await
}

/// A project of the org that is not deleted, by name or id.
pub(super) async fn project(
    write: &mut Write<'_>,
    wanted: &str,
) -> Result<(ProjectId, String), Refusal> {
    let id = wanted.parse::<ProjectId>().ok().map(ProjectId::uuid);
    // Postgres rejects NUL bytes in text, and no name contains one.
    let name = Some(wanted).filter(|text| !text.contains('\0'));
    let found: Option<(uuid::Uuid, String)> = sqlx::query_as(
        "select id, name from projects where deleted_at is null and (id = $1 or name = $2)
         order by id for share",
    )
    .bind(id)
    .bind(name)
    .fetch_optional(&mut *write.tx)
    .await?;
    let (id, name) = found.ok_or(Refusal::NotFound("project"))?;
    Ok((ProjectId::from_uuid(id), name))
}

/// Gives a user a role in a project.
pub(super) async fn give(
    write: &mut Write<'_>,
    user: UserId,
    project: ProjectId,
    role: Role,
    principal: String,
) -> Result<(), Refusal> {
    sqlx::query(
        "insert into role_bindings (principal_id, project_id, org_id, role, created_at)
         values ($1, $2, $3, $4, $5)
         on conflict (principal_id, project_id) where removed_at is null do update set role = excluded.role",
    )
    .bind(user.uuid())
    .bind(project.uuid())
    .bind(write.org().uuid())
    .bind(role.into_str())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let fact = ProjectRoleGranted { user, project, role, principal };
    Ok(write.record(Fact::ProjectRoleGranted(fact)).await?)
}

/// Takes every role that a user has in projects of the org; whoever comes back begins without them.
pub(super) async fn end_all(write: &mut Write<'_>, user: UserId) -> Result<(), Refusal> {
    sqlx::query(
        "update role_bindings set removed_at = $2 where principal_id = $1 and removed_at is null",
    )
    .bind(user.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}
