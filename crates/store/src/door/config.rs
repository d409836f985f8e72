//! Shared by variables and secrets: finding the scope, and a new generation for each service that
//! reads a changed entry.
//!
//! One transaction: the scope's row is locked first, then the services in id order. A service that
//! is declared meanwhile waits for the project's lock (its foreign key takes it) and then gets an
//! order with the new entries.

use std::collections::BTreeMap;

use trueup_model::event::Fact;
use trueup_model::id::ServiceId;
use trueup_model::order::Unit;
use trueup_model::service::Service;
use trueup_model::variable::{Scope, VariableName};
use trueup_model::wake::Lane;
use trueup_rules::admit::variable::{
    Entries, MOST_ENTRIES, MOST_SERVICES, check_together, collisions, merge,
};
use trueup_rules::admit::{FieldError, Refused};

use super::Refusal;
use super::entry::EntryKind;
use super::generation::next;
use super::lock::check_not_deleting;
use super::write::Write;
use crate::Error;
use crate::db::pool::Tx;
use crate::service::service;
use crate::variable::{AllEntries, entries, find_scope};

/// Names a variable or secret.
#[derive(Debug, Clone, Copy)]
pub struct EntryRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id; `None` for an entry shared by the project's services.
    pub service: Option<&'a str>,
    /// Its name.
    pub name: &'a VariableName,
    /// Precondition: the version the caller read, 0 if it was not set.
    pub if_version: Option<i64>,
}

/// A scope that is locked until the transaction ends.
pub(super) struct Locked {
    pub(super) scope: Scope,
    /// The generation of the project or service.
    generation: i64,
}

impl Locked {
    /// The project or service whose entries these are.
    pub(super) fn unit(&self) -> Unit {
        self.scope.service.map_or(Unit::Project(self.scope.project), Unit::Service)
    }
}

/// Finds the scope: a project, or one of its services.
pub(super) async fn require_scope(
    tx: &mut Tx,
    project: &str,
    service: Option<&str>,
) -> Result<Scope, Refusal> {
    let what = if service.is_some() { "service" } else { "project" };
    find_scope(tx, project, service).await?.ok_or(Refusal::NotFound(what))
}

/// Finds the scope and locks its row.
pub(super) async fn lock(
    write: &mut Write<'_>,
    project: &str,
    service: Option<&str>,
) -> Result<Locked, Refusal> {
    let scope = require_scope(&mut write.tx, project, service).await?;
    let generation = match scope.service {
        None => {
            let (generation, desired) = write.lock_project(scope.project).await?;
            check_not_deleting(desired)?;
            generation
        }
        Some(id) => {
            // The entry's foreign key takes this lock later; taking it first keeps the lock order.
            sqlx::query("select 1 from projects where id = $1 for key share")
                .bind(scope.project.uuid())
                .execute(&mut *write.tx)
                .await?;
            write.lock_for_change(id, None).await?.generation
        }
    };
    Ok(Locked { scope, generation })
}

/// Refuses a new name if the scope has the maximum number of entries.
pub(super) fn check_limit(own: &Entries, name: &VariableName) -> Result<(), Refusal> {
    let known = own.variables.contains_key(name) || own.secrets.contains_key(name);
    if !known && own.variables.len() + own.secrets.len() >= MOST_ENTRIES {
        let message = format!("the limit of {MOST_ENTRIES} names is reached; delete one first");
        return Err(invalid("name", message));
    }
    Ok(())
}

/// All entries of the project as the transaction sees them now.
pub(super) async fn current_entries(tx: &mut Tx, of: &Locked) -> Result<AllEntries, Error> {
    entries(tx, &[of.scope.project.uuid()]).await
}

/// Records a change of entries: its events, and one new generation and wake for each affected
/// service, however many entries changed.
pub(super) async fn record_change(
    write: &mut Write<'_>,
    of: &Locked,
    before: &AllEntries,
    facts: Vec<Fact>,
) -> Result<(), Refusal> {
    let after = current_entries(&mut write.tx, of).await?;
    check_together(&own_entries(before, of), &own_entries(&after, of))
        .map_err(|field_error| Refusal::Refused(Refused::Invalid(vec![field_error])))?;
    let affected = affected_services(&mut write.tx, of, before, &after).await?;
    let (mut generation, mut changed) = (of.generation, Vec::new());
    for current in affected {
        let next = next(current, write.now);
        if of.scope.service == Some(next.id) {
            generation = next.generation;
        }
        write.record_generation(&next, "configure").await?;
        changed.push(next);
    }
    for fact in facts {
        write.record_about(of.unit(), generation, fact).await?;
    }
    // The quota does not change. Wakes are locked last, as everywhere.
    for service in &changed {
        write.wake(Unit::Service(service.id), service.cluster, Lane::UserChange).await?;
    }
    Ok(())
}

/// The services, not being deleted, whose merged entries changed; locked, in id order.
async fn affected_services(
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
    let mut affected = Vec::new();
    for row in &rows {
        let service = service(row)?;
        let shared = |all: &AllEntries| entries_of(all, of, None);
        let own = |all: &AllEntries| entries_of(all, of, Some(service.id));
        let reads = merge(&service.spec, &shared(after), &own(after));
        if reads == merge(&service.spec, &shared(before), &own(before)) {
            continue;
        }
        affected.push(service);
    }
    if affected.len() > MOST_SERVICES {
        let message = format!(
            "this would change {} services at once and the limit is {MOST_SERVICES}; set it for each \
             service instead",
            affected.len()
        );
        return Err(invalid("name", message));
    }
    Ok(affected)
}

/// The entries of exactly the scope that is changed.
pub(super) fn own_entries(all: &AllEntries, of: &Locked) -> Entries {
    entries_of(all, of, of.scope.service)
}

fn entries_of(all: &AllEntries, of: &Locked, service: Option<ServiceId>) -> Entries {
    all.get(&(of.scope.project, service)).cloned().unwrap_or_default()
}

/// The names among these that a template generates as secrets for services in the scope, with the
/// reason to refuse each.
pub(super) async fn find_collisions<'n>(
    tx: &mut Tx,
    of: &Locked,
    names: &[&'n VariableName],
) -> Result<BTreeMap<&'n VariableName, String>, Error> {
    let texts: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let rows = sqlx::query(
        "select * from services
         where project_id = $1 and ($2::uuid is null or id = $2) and desired <> 'deleted'
           and spec -> 'generated_secrets' ?| $3
         order by id",
    )
    .bind(of.scope.project.uuid())
    .bind(of.scope.service.map(ServiceId::uuid))
    .bind(texts)
    .fetch_all(&mut **tx)
    .await?;
    let mut found = BTreeMap::new();
    for row in &rows {
        let service = service(row)?;
        for name in names {
            let errors = collisions(&service.spec, [name.as_str()]);
            let error = errors.into_iter().find(|field_error| field_error.field == "name");
            if let Some(error) = error {
                let message = || format!("service `{}`: {}", service.name, error.message);
                found.entry(*name).or_insert_with(message);
            }
        }
    }
    Ok(found)
}

/// Refuses a service whose template generates a secret under a name that is already set.
pub(super) async fn check_generated_secrets(tx: &mut Tx, service: &Service) -> Result<(), Refusal> {
    if service.spec.generated_secrets.is_empty() {
        return Ok(());
    }
    let all = entries(tx, &[service.project.uuid()]).await?;
    let read = [None, Some(service.id)].map(|owner| all.get(&(service.project, owner)));
    let names = read.iter().flatten().flat_map(|entries| {
        entries.variables.keys().chain(entries.secrets.keys()).map(VariableName::as_str)
    });
    let errors = collisions(&service.spec, names);
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}

/// A refusal with one field error.
pub(super) fn invalid(field: &str, message: String) -> Refusal {
    Refusal::Refused(Refused::Invalid(vec![FieldError { field: field.to_owned(), message }]))
}

/// Refuses a variable whose name is a secret in the same scope, and vice versa.
///
/// # Errors
/// The reason.
pub(super) fn check_kind(
    own: &Entries,
    name: &VariableName,
    kind: EntryKind,
) -> Result<(), String> {
    let (taken, is) = match kind {
        EntryKind::Variable => (own.secrets.contains_key(name), "secret"),
        EntryKind::Secret => (own.variables.contains_key(name), "variable"),
    };
    if taken { Err(format!("is already a {is} here; delete the {is} first")) } else { Ok(()) }
}
