//! Orgs: the tenants, as operators create and list them.

use jiff::Timestamp;
use trueup_model::event::Fact;
use trueup_model::id::OrgId;
use trueup_model::name::Name;
use trueup_model::org::{Org, PLATFORM};
use trueup_model::principal::Role;
use trueup_model::token::TokenSpec;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::{Tx, enter};
use crate::door::{Refusal, RequestContext, idempotency};
use crate::token::{self, CreatedToken, insert};
use crate::{App, Error, event};

type Columns = (Uuid, String, jiff_sqlx::Timestamp);

fn row((id, name, created_at): Columns) -> Org {
    Org { id: OrgId::from_uuid(id), name, created_at: created_at.to_jiff() }
}

impl App {
    /// The org that an operator names, by name or id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_org(&self, wanted: &str) -> Result<Option<OrgId>, Error> {
        if wanted.contains('\0') {
            return Ok(None);
        }
        let wanted =
            wanted.parse::<OrgId>().map_or_else(|_| wanted.to_owned(), |id| id.uuid().to_string());
        let (id,): (Option<Uuid>,) =
            sqlx::query_as("select find_org($1)").bind(wanted).fetch_one(self.pool()).await?;
        Ok(id.map(OrgId::from_uuid))
    }

    /// An org by its id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn get_org(&self, id: OrgId) -> Result<Option<Org>, Error> {
        let mut tx = self.begin(id).await?;
        find(&mut tx, id).await
    }

    /// Every tenant, in name order; the platform's own org is not listed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_orgs(&self) -> Result<Vec<Org>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let rows: Vec<Columns> =
            sqlx::query_as("select id, name, created_at from orgs where id <> $1 order by name")
                .bind(PLATFORM.uuid())
                .fetch_all(&mut *tx)
                .await?;
        Ok(rows.into_iter().map(row).collect())
    }

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
        let mut tx = self.begin(PLATFORM).await?;
        if let Some(former) = idempotency::find(&mut tx, context, now).await? {
            return made_before(&mut tx, &former).await;
        }
        let id: OrgId = new_id(now);
        enter(&mut tx, id).await?;
        let inserted = sqlx::query(
            "insert into orgs (id, name, created_at) values ($1, $2, $3) on conflict (name) do nothing",
        )
        .bind(id.uuid())
        .bind(name.as_str())
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        if inserted.rows_affected() == 0 {
            return Err(Refusal::NameTaken("org"));
        }
        let principal = context.principal.name.clone();
        let created = Fact::OrgCreated { name: name.to_string(), principal };
        event::record_of_org(&mut tx, id, created, context, now).await?;
        let owner = TokenSpec {
            name: "owner".to_owned(),
            role: Role::Owner,
            permissions: None,
            expires_at: None,
        };
        let owner = insert(&mut tx, id, owner, context, now).await?;
        enter(&mut tx, PLATFORM).await?;
        idempotency::record(&mut tx, context, &format!("{id} {}", owner.row.id), now).await?;
        self.end(tx).await?;
        Ok((Org { id, name: name.to_string(), created_at: now }, owner))
    }
}

/// The org and the owner token that an earlier request created, as they are now.
async fn made_before(tx: &mut Tx, former: &str) -> Result<(Org, CreatedToken), Refusal> {
    let gone = || Refusal::NotFound("org");
    let (id, owner) = former.split_once(' ').ok_or_else(gone)?;
    let id: OrgId = id.parse().map_err(|_| gone())?;
    enter(tx, id).await?;
    let org = find(tx, id).await?.ok_or_else(gone)?;
    Ok((org, CreatedToken { row: token::made_before(tx, owner).await?, text: None }))
}

async fn find(tx: &mut Tx, id: OrgId) -> Result<Option<Org>, Error> {
    let found: Option<Columns> =
        sqlx::query_as("select id, name, created_at from orgs where id = $1")
            .bind(id.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    Ok(found.map(row))
}
