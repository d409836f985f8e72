//! Roles in single projects, as the functions of the database return them with a principal.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use sqlx::types::Json;
use trueup_model::id::ProjectId;
use trueup_model::principal::ProjectRole;
use uuid::Uuid;

use crate::Error;
use crate::db::row::read;

/// A role as SQL returns it.
#[derive(Debug, Deserialize)]
pub(crate) struct Stored {
    project: Uuid,
    name: Option<String>,
    role: String,
}

/// The roles of a principal, in the order of their projects.
pub(crate) fn roles(stored: Json<Vec<Stored>>) -> Result<Vec<ProjectRole>, Error> {
    let role = |one: Stored| {
        let (project, role) = (ProjectId::from_uuid(one.project), read("role", one.role)?);
        Ok(ProjectRole { project, name: one.name, role })
    };
    stored.0.into_iter().map(role).collect()
}

/// A number that changes with the roles, for comparisons within this process.
#[must_use]
pub fn digest(roles: &[ProjectRole]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for one in roles {
        (one.project, one.role.into_str()).hash(&mut hasher);
    }
    hasher.finish()
}
