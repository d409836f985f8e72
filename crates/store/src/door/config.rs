//! What setting a variable and setting a secret have in common: whose it is, whom it reaches, and
//! the new generation of each of those.
//!
//! One transaction: the scope's row is locked first and the services after it in the order of their
//! ids. A service that is declared meanwhile waits for the project's lock (its foreign key asks for
//! it) and is then ordered with what was set here.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::ServiceId;
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_model::variable::{Scope, VariableName};
use trueup_model::wake::Lane;
use trueup_rules::admit::variable::{
    Entries, MOST_ENTRIES, MOST_SERVICES, check_together, collisions, merge,
};
use trueup_rules::admit::{FieldError, Refused};

use super::entry::EntryKind;
use super::project::must_live;
use super::service::write_down;
use super::{Refusal, RequestContext};
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::service::service;
use crate::variable::{AllEntries, entries, find_scope};
use crate::work::wake;
use crate::{Error, event};

/// Which variable or secret somebody speaks of.
#[derive(Debug, Clone, Copy)]
pub struct EntryRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id; none for what all services of the project share.
    pub service: Option<&'a str>,
    /// Its name.
    pub name: &'a VariableName,
    /// The version the caller has seen, if it insists on it; 0 for one that is not set.
    pub if_version: Option<i64>,
}

/// A scope whose entries nobody else changes until the transaction ends.
pub(super) struct Locked {
    pub(super) scope: Scope,
    /// The generation of the project or service.
    generation: i64,
}

/// Finds the scope and locks its row.
pub(super) async fn lock(tx: &mut Tx, wanted: &EntryRequest<'_>) -> Result<Locked, Refusal> {
    let what = if wanted.service.is_some() { "service" } else { "project" };
    let scope = find_scope(tx, wanted.project, wanted.service).await?;
    let scope = scope.ok_or(Refusal::NotFound(what))?;
    let generation = match scope.service {
        None => {
            let (generation, desired): (i64, String) =
                sqlx::query_as("select generation, desired from projects where id = $1 for update")
                    .bind(scope.project.uuid())
                    .fetch_one(&mut **tx)
                    .await?;
            must_live(read("desired state", desired)?)?;
            generation
        }
        Some(id) => {
            // The entry's foreign key will ask for this lock; asking first keeps the order.
            sqlx::query("select 1 from projects where id = $1 for key share")
                .bind(scope.project.uuid())
                .execute(&mut **tx)
                .await?;
            let row = sqlx::query("select * from services where id = $1 for update")
                .bind(id.uuid())
                .fetch_one(&mut **tx)
                .await?;
            let service = service(&row)?;
            if service.desired == DesiredState::Deleted {
                return Err(Refusal::Refused(Refused::BeingDeleted));
            }
            service.generation
        }
    };
    Ok(Locked { scope, generation })
}

/// Refuses one more name where there are as many as there may be.
pub(super) fn check_room(
    entries: &AllEntries,
    of: &Locked,
    name: &VariableName,
) -> Result<(), Refusal> {
    let Some(own) = entries.get(&(of.scope.project, of.scope.service)) else {
        return Ok(());
    };
    let known = own.variables.contains_key(name) || own.secrets.contains_key(name);
    if !known && own.variables.len() + own.secrets.len() >= MOST_ENTRIES {
        let message = format!("there are {MOST_ENTRIES} names already; take one away first");
        return Err(invalid("name", message));
    }
    Ok(())
}

/// Everything that is set in the project, for checking before and after a change.
pub(super) async fn set_now(tx: &mut Tx, of: &Locked) -> Result<AllEntries, Error> {
    entries(tx, &[of.scope.project.uuid()]).await
}

/// Gives each living service that now reads something else a new generation, and records what was
/// done about the scope. Answers how many services it reached.
pub(super) async fn reach(
    tx: &mut Tx,
    of: &Locked,
    before: &AllEntries,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<usize, Refusal> {
    let after = set_now(tx, of).await?;
    let own = |all: &AllEntries| entries_of(all, of, of.scope.service);
    check_together(&own(before), &own(&after))
        .map_err(|field_error| Refusal::Refused(Refused::Invalid(vec![field_error])))?;
    let reached = reached(tx, of, before, &after).await?;
    let (mut generation, mut changed) = (of.generation, Vec::new());
    for current in &reached {
        let next = Service {
            generation: current.generation.saturating_add(1),
            accepted_at: now,
            ..current.clone()
        };
        if of.scope.service == Some(next.id) {
            generation = next.generation;
        }
        write_down(tx, &next, "configure", context, now).await?;
        changed.push(next);
    }
    let set = NewEvent {
        id: new_id(now),
        org: of.scope.org,
        source: Source::User,
        unit: of.scope.service.map_or(Unit::Project(of.scope.project), Unit::Service),
        generation,
        at: now,
        fact,
        trace: context.trace.clone(),
        cause: None,
    };
    event::record(tx, &[set]).await?;
    // What is promised takes no more of the quota than before; wakes come last, as everywhere.
    for service in &changed {
        let (unit, cluster) = (Unit::Service(service.id), service.cluster);
        let wanted = wake::Request::by(context, unit, service.org, cluster, Lane::UserChange);
        wake::request(tx, &wanted, now).await?;
    }
    Ok(reached.len())
}

/// The living services that read something else than before, in the order of their ids, locked.
async fn reached(
    tx: &mut Tx,
    of: &Locked,
    before: &AllEntries,
    after: &AllEntries,
) -> Result<Vec<Service>, Refusal> {
    let rows = sqlx::query(
        "select * from services
         where project_id = $1 and ($2::uuid is null or id = $2) and desired <> 'deleted'
         order by id for update",
    )
    .bind(of.scope.project.uuid())
    .bind(of.scope.service.map(ServiceId::uuid))
    .fetch_all(&mut **tx)
    .await?;
    let mut reached = Vec::new();
    for row in &rows {
        let service = service(row)?;
        let shared = |all: &AllEntries| entries_of(all, of, None);
        let own = |all: &AllEntries| entries_of(all, of, Some(service.id));
        let reads = merge(&service.spec, &shared(after), &own(after));
        if reads == merge(&service.spec, &shared(before), &own(before)) {
            continue;
        }
        reached.push(service);
    }
    if reached.len() > MOST_SERVICES {
        let message = format!(
            "{} services would change at once and {MOST_SERVICES} may; set it for each service instead",
            reached.len()
        );
        return Err(invalid("name", message));
    }
    Ok(reached)
}

fn entries_of(all: &AllEntries, of: &Locked, service: Option<ServiceId>) -> Entries {
    all.get(&(of.scope.project, service)).cloned().unwrap_or_default()
}

/// Refuses a name that a template generates for a service which would read it.
pub(super) async fn check_collisions(
    tx: &mut Tx,
    of: &Locked,
    name: &VariableName,
) -> Result<(), Refusal> {
    let rows = sqlx::query(
        "select * from services
         where project_id = $1 and ($2::uuid is null or id = $2) and desired <> 'deleted'
           and spec -> 'generated_secrets' ? $3
         order by id limit 1",
    )
    .bind(of.scope.project.uuid())
    .bind(of.scope.service.map(ServiceId::uuid))
    .bind(name.as_str())
    .fetch_all(&mut **tx)
    .await?;
    for row in &rows {
        let service = service(row)?;
        let mut errors = collisions(&service.spec, [name.as_str()]);
        errors.retain(|field_error| field_error.field == "name");
        for field_error in &mut errors {
            field_error.message = format!("service `{}`: {}", service.name, field_error.message);
        }
        if !errors.is_empty() {
            return Err(Refusal::Refused(Refused::Invalid(errors)));
        }
    }
    Ok(())
}

/// Refuses a promise whose template generates a secret under a name that is set beside it.
pub(super) async fn check_promise(tx: &mut Tx, promised: &Service) -> Result<(), Refusal> {
    if promised.spec.generated_secrets.is_empty() {
        return Ok(());
    }
    let all = entries(tx, &[promised.project.uuid()]).await?;
    let read = [None, Some(promised.id)].map(|service| all.get(&(promised.project, service)));
    let names = read.iter().flatten().flat_map(|entries| {
        entries.variables.keys().chain(entries.secrets.keys()).map(VariableName::as_str)
    });
    let errors = collisions(&promised.spec, names);
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}

/// One field_error as a refusal.
pub(super) fn invalid(field: &str, message: String) -> Refusal {
    Refusal::Refused(Refused::Invalid(vec![FieldError { field: field.to_owned(), message }]))
}

/// Refuses a name that the same scope has as the other kind.
pub(super) fn check_kind(
    entries: &AllEntries,
    of: &Locked,
    name: &VariableName,
    kind: EntryKind,
) -> Result<(), Refusal> {
    let Some(own) = entries.get(&(of.scope.project, of.scope.service)) else {
        return Ok(());
    };
    let (taken, is) = match kind {
        EntryKind::Variable => (own.secrets.contains_key(name), "secret"),
        EntryKind::Secret => (own.variables.contains_key(name), "variable"),
    };
    if taken {
        return Err(invalid("name", format!("is a {is} here already; delete that first")));
    }
    Ok(())
}
