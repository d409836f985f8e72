//! Creates orgs, and accepts their deletion.

use jiff::Timestamp;
use trueup_model::event::{Fact, OrgCreated, OrgDeleteQueued};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::org::{Org, PLATFORM};
use trueup_model::principal::Role;
use trueup_model::token::TokenSpec;
use uuid::Uuid;

use super::project::{self, DeletedProject};
use super::write::Write;
use super::{Accepted, Refusal, RequestContext, token};
use crate::App;
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::org::find;
use crate::token::CreatedToken;

impl App {
    /// Creates an org and its first owner token in one transaction, so that every org is
    /// accessible.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn create_org(
        &self,
        name: &Name,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Org, CreatedToken), Refusal> {
        // The idempotency key is recorded in the platform's org, to which the operator belongs.
        self.write(PLATFORM, context, now, |write| create(write, name)).await
    }

    /// Accepts the deletion of an org: of each of its projects, with every service in them. No
    /// project is accepted in it from then on. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_org(
        &self,
        org: OrgId,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Org>, Refusal> {
        self.write(org, context, now, delete).await
    }
}

async fn create(mut write: Write<'_>, name: &Name) -> Result<(Org, CreatedToken), Refusal> {
    if let Some(earlier) = write.earlier().await? {
        return created_before(&mut write, &earlier).await;
    }
    let id: OrgId = new_id(write.now);
    write.enter(id).await?;
    let inserted = sqlx::query(
        "insert into orgs (id, name, created_at) values ($1, $2, $3) on conflict (name) do nothing",
    )
    .bind(id.uuid())
    .bind(name.as_str())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(Refusal::NameTaken("org"));
    }
    let fact =
        Fact::OrgCreated(OrgCreated { name: name.to_string(), principal: write.principal() });
    write.record(fact).await?;
    let owner = TokenSpec {
        name: "owner".to_owned(),
        role: Role::Owner,
        project: None,
        permissions: None,
        expires_at: None,
    };
    let owner = token::insert(&mut write, owner).await?;
    write.enter(PLATFORM).await?;
    let subject = format!("{id} {}", owner.row.id);
    let org = Org { id, name: name.to_string(), created_at: write.now, deleting_at: None };
    write.finish_as(&subject, (org, owner)).await
}

/// The org and the owner token that an earlier request created, as they are now.
async fn created_before(
    write: &mut Write<'_>,
    earlier: &str,
) -> Result<(Org, CreatedToken), Refusal> {
    let gone = || Refusal::NotFound("org");
    let (id, owner) = earlier.split_once(' ').ok_or_else(gone)?;
    let id: OrgId = id.parse().map_err(|_| gone())?;
    write.enter(id).await?;
    let org = find(&mut write.tx, id).await?.ok_or_else(gone)?;
    Ok((org, token::created_before(&mut write.tx, owner).await?))
}

async fn delete(mut write: Write<'_>) -> Result<Accepted<Org>, Refusal> {
    let changed = mark_deleting(&mut write).await?;
    if changed {
        delete_projects(&mut write).await?;
    }
    let id = write.org();
    let row = find(&mut write.tx, id).await?.ok_or(Refusal::NotFound("org"))?;
    write.finish(Accepted { row, changed }).await
}

/// Marks the org as being deleted, and keeps its row locked, so that no project is created in it
/// meanwhile. False if it was marked before.
async fn mark_deleting(write: &mut Write<'_>) -> Result<bool, Refusal> {
    let marked =
        sqlx::query("update orgs set deleting_at = $2 where id = $1 and deleting_at is null")
            .bind(write.org().uuid())
            .bind(sql(write.now))
            .execute(&mut *write.tx)
            .await?;
    Ok(marked.rows_affected() == 1)
}

/// Accepts the deletion of every project that is not being deleted yet.
async fn delete_projects(write: &mut Write<'_>) -> Result<(), Refusal> {
    let found: Vec<(Uuid,)> =
        sqlx::query_as("select id from projects where desired <> 'deleted' order by id")
            .fetch_all(&mut *write.tx)
            .await?;
    let mut deleted = Vec::new();
    for (id,) in found {
        deleted.extend(project::delete_found(write, ProjectId::from_uuid(id)).await?);
    }
    let fact = Fact::OrgDeleteQueued(OrgDeleteQueued {
        projects: deleted.len(),
        services: deleted.iter().map(DeletedProject::services).sum(),
        principal: write.principal(),
    });
    write.record(fact).await?;
    // After the last project is locked: quotas and wakes are locked after projects and services.
    for project in &deleted {
        project.wake(write).await?;
    }
    Ok(())
}
