//! Sets and deletes several variables at once: all of them, or none.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trueup_model::event::Fact;
use trueup_model::id::OrgId;
use trueup_model::variable::{Scope, Variable, VariableName};
use trueup_rules::admit::variable::{Entries, MOST_ENTRIES, check_value};
use trueup_rules::admit::{FieldError, Refused};

use super::config::{
    Locked, check_kind, current_entries, find_collisions, invalid, lock, own_entries,
    record_change, require_scope,
};
use super::entry::{EntryKind, delete_value};
use super::variable::set_value;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::App;
use crate::db::pool::Tx;
use crate::variable::{AllEntries, list};

/// Changes of the variables of a project or of one service.
#[derive(Debug, Clone, Copy)]
pub struct VariablePatch<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id; `None` for variables shared by the project's services.
    pub service: Option<&'a str>,
    /// The values to set, by name.
    pub set: &'a BTreeMap<VariableName, String>,
    /// The names to delete.
    pub delete: &'a [VariableName],
}

impl App {
    /// Sets and deletes variables, all or none. Each service that reads one of them gets one new
    /// generation. Returns all variables of the project or service, in name order.
    ///
    /// # Errors
    /// [`Refusal`] says why not, with a field error for each name that is refused.
    pub async fn patch_variables(
        &self,
        org: OrgId,
        wanted: &VariablePatch<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Vec<Variable>>, Refusal> {
        check_length(wanted)?;
        self.write(org, context, now, |write| patch(write, wanted)).await
    }
}

async fn patch(
    mut write: Write<'_>,
    wanted: &VariablePatch<'_>,
) -> Result<Accepted<Vec<Variable>>, Refusal> {
    if write.earlier().await?.is_some() {
        let scope = require_scope(&mut write.tx, wanted.project, wanted.service).await?;
        let row = list(&mut write.tx, scope).await?;
        return Ok(Accepted { row, changed: false });
    }
    let locked = lock(&mut write, wanted.project, wanted.service).await?;
    let before = current_entries(&mut write.tx, &locked).await?;
    check(&mut write.tx, &locked, &before, wanted).await?;
    let facts = apply(&mut write, locked.scope, wanted).await?;
    let changed = !facts.is_empty();
    if changed {
        let recorded = record_change(&mut write, &locked, &before, facts).await;
        recorded.map_err(|refusal| name_field(refusal, wanted))?;
    }
    let row = list(&mut write.tx, locked.scope).await?;
    write.finish_as(&locked.unit().to_string(), Accepted { row, changed }).await
}

/// Writes every value. Returns a fact for each name that changed.
async fn apply(
    write: &mut Write<'_>,
    scope: Scope,
    wanted: &VariablePatch<'_>,
) -> Result<Vec<Fact>, Refusal> {
    let mut facts = Vec::new();
    for (name, value) in wanted.set {
        let set = set_value(write, scope, name, value).await?;
        facts.extend(set.map(|(_, fact)| fact));
    }
    for name in wanted.delete {
        facts.push(delete_value(write, scope, EntryKind::Variable, name).await?);
    }
    Ok(facts)
}

/// Refuses more names than can exist before any of them is read.
fn check_length(wanted: &VariablePatch<'_>) -> Result<(), Refusal> {
    for (field, length) in [("set", wanted.set.len()), ("delete", wanted.delete.len())] {
        if length > MOST_ENTRIES {
            let message = format!("has {length} names and the limit is {MOST_ENTRIES}; send fewer");
            return Err(invalid(field, message));
        }
    }
    Ok(())
}

/// Checks every name, so that one response lists all that must be fixed.
async fn check(
    tx: &mut Tx,
    of: &Locked,
    before: &AllEntries,
    wanted: &VariablePatch<'_>,
) -> Result<(), Refusal> {
    let own = own_entries(before, of);
    let names: Vec<&VariableName> = wanted.set.keys().collect();
    let mut generated = find_collisions(tx, of, &names).await?;
    let mut errors = Vec::new();
    for (name, value) in wanted.set {
        let refused = check_value(value)
            .map_err(|field_error| field_error.message)
            .and_then(|()| check_kind(&own, name, EntryKind::Variable))
            .and_then(|()| generated.remove(name).map_or(Ok(()), Err));
        if let Err(message) = refused {
            errors.push(FieldError { field: format!("set.{name}"), message });
        }
    }
    errors.extend(check_deletions(&own, wanted));
    if errors.is_empty() {
        errors.extend(check_count(&own, wanted));
    }
    if errors.is_empty() {
        Ok(())
    } else if errors.iter().all(|error| error.message == MISSING) {
        Err(Refusal::NotFound("variable"))
    } else {
        Err(Refusal::Refused(Refused::Invalid(errors)))
    }
}

/// What is said about a name that is not there. If nothing else is wrong, the answer is the same as
/// for the deletion of one such variable: not found.
const MISSING: &str = "is not a variable here; check the name";

/// An error for each name that cannot be deleted.
fn check_deletions(own: &Entries, wanted: &VariablePatch<'_>) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, name) in wanted.delete.iter().enumerate() {
        let message = if wanted.set.contains_key(name) {
            "is also in `set`; keep one of them"
        } else if !seen.insert(name) {
            "is listed twice; list it once"
        } else if !own.variables.contains_key(name) {
            MISSING
        } else {
            continue;
        };
        errors.push(FieldError { field: format!("delete[{index}]"), message: message.to_owned() });
    }
    errors
}

/// An error if there would be too many names. Deletions of the same request make room.
fn check_count(own: &Entries, wanted: &VariablePatch<'_>) -> Option<FieldError> {
    let new = wanted.set.keys().filter(|name| !own.variables.contains_key(*name)).count();
    let left = (own.variables.len() + own.secrets.len()).saturating_sub(wanted.delete.len());
    let after = left.saturating_add(new);
    (new > 0 && after > MOST_ENTRIES).then(|| FieldError {
        field: "set".to_owned(),
        message: format!(
            "would make {after} names here and the limit is {MOST_ENTRIES}; delete others first"
        ),
    })
}

/// Gives errors about all names together the field of the request that has them.
fn name_field(mut refusal: Refusal, wanted: &VariablePatch<'_>) -> Refusal {
    let field = if wanted.set.is_empty() { "delete" } else { "set" };
    if let Refusal::Refused(Refused::Invalid(errors)) = &mut refusal {
        for error in errors {
            field.clone_into(&mut error.field);
        }
    }
    refusal
}
