//! `trueup delete org`: deletes every project of an org, for operators.

use std::time::Duration;

use trueup_api::org::Org;
use trueup_api::receipt::OrgReceiptList;

use super::Args;
use super::poll::{Deletion, poll};
use crate::command::receipt::org::{show, without_receipt};
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};

pub(super) async fn run(
    name: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if args.force {
        return Err(Failure::new(
            Exit::Usage,
            "the deletion of an org cannot be forced as a whole",
        )
        .hint("force what is stuck: `trueup delete NAME --force`, with `project` for a project")
        .into());
    }
    let reading = connection.client.org_get(name);
    let org = context.wait("reading the org", reading).await?;
    if !args.dry.is_dry() && org.deleting_at.is_none() {
        let question = format!(
            "Delete org {} with all of its projects, their services and their data? Nothing new is \
             accepted in it afterwards.",
            org.name
        );
        let operation = format!("delete org {}", org.name);
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    let writing = args.dry.begin(&connection.client);
    let deleting = writing.client().org_delete(&org.id);
    let accepted = context.wait("requesting the deletion", deleting).await?;
    if writing.previewed(&format!("org/{}", org.name), context)? {
        return Ok(Exit::Ok);
    }
    let org = accepted.org;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was already accepted" };
        context.terminal.line(&format!("org/{} deletion {outcome}", org.name))?;
    }
    if args.wait {
        let waiting = wait_complete(&org, args.timeout, connection);
        let receipts = context.wait("waiting for the deletion", waiting).await?;
        return show(&receipts, context);
    }
    context.output.print(context.terminal, &org)?;
    context.terminal.note(&format!("check the progress: trueup receipts --org {}", org.id))?;
    Ok(Exit::Ok)
}

/// Reads the receipts of an org until they are complete.
async fn wait_complete(
    org: &Org,
    timeout: Duration,
    connection: &Connection,
) -> anyhow::Result<OrgReceiptList> {
    let read = async || -> anyhow::Result<Deletion<OrgReceiptList>> {
        let receipts = connection.client.org_receipts(&org.id).await?;
        if receipts.complete {
            return Ok(Deletion::Complete(receipts));
        }
        Ok(Deletion::Pending(without_receipt(&receipts)))
    };
    poll(&format!("org/{}", org.name), timeout, read).await
}
