//! Checks before an apply that all services fit into the quota together.

use trueup_api::client::ClientError;
use trueup_api::problem::Code;

use super::planner::Planner;
use super::total::Shortage;
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::manifest::{Manifest, ParsedDocument};

/// Refuses documents whose services together exceed the quota, before any of them is sent.
///
/// Without this check the first services would be accepted and the rest refused, in the order of
/// the documents. A single service needs no check: the server accepts or refuses it as a whole.
///
/// # Errors
/// The services exceed the quota, or the server is unreachable. A document that is refused for
/// another reason is not an error here: it is reported when it is sent.
pub async fn check_quota(
    documents: &[ParsedDocument],
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<()> {
    let is_service =
        |document: &&ParsedDocument| matches!(document.1, Ok(Manifest::Service { .. }));
    let services = documents.iter().filter(is_service).count();
    if services < 2 {
        return Ok(());
    }
    let mut planner = Planner::new(context, connection);
    for (location, document) in documents {
        // A plan takes nothing of the quota.
        let Ok(manifest @ (Manifest::Project { .. } | Manifest::Service { .. })) = document else {
            continue;
        };
        let location = location.to_string();
        let Err(error) = planner.preview(manifest.clone(), &location).await else { continue };
        match error.downcast_ref::<ClientError>() {
            Some(ClientError::Unreachable { .. }) => return Err(error),
            Some(refused) if refused.code() == Some(Code::OverQuota) => {
                return Err(refusal(&format!("{location}: {}", refused.summary())).into());
            }
            Some(ClientError::Problem(_) | ClientError::Protocol(_)) | None => {}
        }
    }
    let over_quota = planner.total().map(|total| total.over_quota).unwrap_or_default();
    if over_quota.is_empty() {
        return Ok(());
    }
    let short: Vec<String> = over_quota.iter().copied().map(Shortage::text).collect();
    Err(refusal(&format!("the {services} services together need {}", short.join(", "))).into())
}

fn refusal(why: &str) -> Failure {
    Failure::new(Exit::Failed, format!("over quota, so nothing was applied: {why}")).hint(
        "request less, delete something, or ask an operator to raise the quota; `trueup plan` \
               shows what each service takes",
    )
}
