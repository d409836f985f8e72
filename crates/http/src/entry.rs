//! What variables and secrets have in common: they differ only in their values.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use trueup_api::Code;
use trueup_model::principal::Permission;
use trueup_model::variable::{VariableName, VariableNameError};
use trueup_rules::admit::FieldError;
use trueup_store::door::{EntryKind, EntryRequest};

use crate::front::problem::{Answer, Failure};
use crate::write::request::WriteRequest;

/// The variable or secret in a path: of a project, or of one service.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    project: String,
    service: Option<String>,
    #[serde(alias = "variable", alias = "secret")]
    name: String,
}

/// A request to set or delete a variable or secret, by a caller with the permission.
pub(crate) struct Wanted {
    of: Entry,
    name: VariableName,
    if_version: Option<i64>,
}

impl Wanted {
    /// Parses the request.
    pub(crate) fn read(change: &WriteRequest, of: Entry) -> Answer<Self> {
        let name = of.name.parse().map_err(|error: VariableNameError| {
            Failure::invalid(vec![FieldError {
                field: "name".to_owned(),
                message: error.to_string(),
            }])
        })?;
        Ok(Self { of, name, if_version: if_version(&change.headers)? })
    }

    pub(crate) fn request(&self) -> EntryRequest<'_> {
        EntryRequest {
            project: &self.of.project,
            service: self.of.service.as_deref(),
            name: &self.name,
            if_version: self.if_version,
        }
    }
}

/// The response to a set value, with its version as the ETag.
pub(crate) fn set<T: Serialize>(
    change: WriteRequest,
    changed: bool,
    version: i64,
    shown: &T,
) -> Answer<Response> {
    let dry = change.is_dry();
    let mut response = change.accepted(changed, shown)?;
    if let (false, Ok(tag)) = (dry, HeaderValue::from_str(&format!("\"v{version}\""))) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Deletes a variable or secret.
pub(crate) async fn remove(change: WriteRequest, kind: EntryKind, of: Entry) -> Answer<Response> {
    let change = change.within(Permission::ManageSecrets)?;
    let wanted = Wanted::read(&change, of)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    change.app().delete_entry(org, kind, &wanted.request(), &context, now).await?;
    change.removed()
}

/// The version that `If-Match` requires, from one of our ETags.
fn if_version(headers: &HeaderMap) -> Answer<Option<i64>> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let version =
        value.to_str().ok().and_then(|tag| tag.trim_matches('"').strip_prefix('v')?.parse().ok());
    version.map(Some).ok_or_else(|| {
        let detail = "`If-Match` must be a version as an ETag, such as \"v3\"; \"v0\" means not \
                      set yet";
        Failure::new(Code::BadRequest, detail)
    })
}

/// 404 for a missing project or service.
pub(crate) fn no_such(service: Option<&str>) -> Failure {
    Failure::not_found(if service.is_some() { "service" } else { "project" })
}
