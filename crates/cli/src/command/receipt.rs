//! `trueup receipts` and `trueup receipt`: the evidence of what was deleted, kept for ever.

pub mod org;

use trueup_api::problem::Code;
use trueup_api::receipt::{MissingReceipt, ReceiptList, SubjectReceipt};
use trueup_api::service::Service;
use trueup_model::receipt::ProofLevel;
use trueup_model::service::DesiredState;

use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure, explain};
use crate::output::human::{clean, count, moment};
use crate::output::receipt;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// List the deletion receipts of a project and all of its services, even after they are gone
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Name or id (prj_…) of the project; without it, the receipts of every project of --org
    #[arg(value_name = "PROJECT")]
    which: Option<String>,
}

/// Show the deletion receipt of a service or project
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the service (svc_…) or project (prj_…)
    id: String,
}

pub async fn list(args: ListArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let Some(project) = args.which else {
        let org = context.org.as_ref().ok_or_else(|| {
            Failure::new(Exit::Usage, "receipts of which project?")
                .hint("`trueup receipts PROJECT`, or `trueup receipts --org NAME` for a whole org")
        })?;
        let list = context.wait("reading the receipts", client.org_receipts(org)).await?;
        return org::show(&list, context);
    };
    let list = context.wait("reading the receipts", client.every_receipt(&project)).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    context.table(&table(&list))?;
    context.terminal.note(&summary(&list))?;
    Ok(Exit::Ok)
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let found = context.wait("reading the receipt", client.receipt_get(&args.id)).await?;
    if !context.output.print(context.terminal, &found)? {
        context.terminal.line(&page(&found))?;
    }
    Ok(Exit::Ok)
}

/// Reads the service that an argument names; by its id also one whose project is gone.
pub async fn find_service(
    text: &str,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Service> {
    let id = text.strip_prefix("service/").unwrap_or(text);
    let unknown = match resolve(text, context, connection).await {
        Err(error) if id.starts_with("svc_") && explain(&error).0 == Exit::NotFound => error,
        result => return result,
    };
    // Only projects that exist are searched; the receipt knows the project of a deleted service.
    match connection.client.receipt_get(id).await {
        Ok(found) => Ok(connection.client.service_get(&found.project_id, id).await?),
        Err(error) if error.code() == Some(Code::NotFound) => Err(unknown),
        Err(error) => Err(error.into()),
    }
}

fn table(list: &ReceiptList) -> Table {
    let mut table = Table::new(&["KIND", "NAME", "ID", "VERIFIED", "PROOF"]);
    for row in rows(list) {
        table.row(row);
    }
    table
}

/// One row for each service and project: first with, then without a receipt.
fn rows(list: &ReceiptList) -> Vec<Vec<Cell>> {
    let proved = list.items.iter().map(|found| {
        let level = found.receipt.level;
        vec![
            Cell::plain(found.kind.into_str()),
            Cell::plain(&found.name),
            Cell::plain(&found.subject),
            Cell::plain(&moment(found.verified_at)),
            Cell::new(paint(level), level.into_str()),
        ]
    });
    let missing = list.missing.iter().map(|missing| {
        vec![
            Cell::plain(missing.kind.into_str()),
            Cell::plain(&missing.name),
            Cell::plain(&missing.subject),
            Cell::plain("-"),
            Cell::new(Paint::Faint, why_missing(missing)),
        ]
    });
    proved.chain(missing).collect()
}

const fn paint(level: ProofLevel) -> Paint {
    match level {
        ProofLevel::ApiAbsence => Paint::Good,
        ProofLevel::ProcessesUnconfirmed => Paint::Busy,
        ProofLevel::Forced => Paint::Bad,
    }
}

const fn why_missing(missing: &MissingReceipt) -> &'static str {
    match missing.desired {
        DesiredState::Deleted => "none yet: being deleted",
        DesiredState::Active | DesiredState::Paused => "none: not deleted",
    }
}

/// Whether the receipts cover the whole project, and how to read one or all of them later.
fn summary(list: &ReceiptList) -> String {
    let (receipts, missing) = (list.items.len(), list.missing.len());
    if list.complete {
        return format!(
            "complete: {}; show one with `trueup receipt ID`, all with `trueup receipts {}`",
            count(receipts, "receipt"),
            clean(&list.project_id)
        );
    }
    let all = receipts.saturating_add(missing);
    format!("not complete: {missing} of {all} without a receipt")
}

fn page(found: &SubjectReceipt) -> String {
    let (kind, name) = (found.kind.into_str(), clean(&found.name));
    let project = format!("{} ({})", clean(&found.project), clean(&found.project_id));
    let mut lines = vec![
        format!("{kind}/{name} is gone"),
        format!("  id            {}", clean(&found.subject)),
        format!("  project       {project}"),
    ];
    lines.extend(receipt::lines(&found.receipt).into_iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::output::style::Style;

    fn item(kind: &str, name: &str, subject: &str, level: &str) -> Value {
        json!({
            "subject": subject, "kind": kind, "name": name, "project": "shop",
            "project_id": "prj_1", "verified_at": "2026-01-01T00:00:01Z",
            "receipt": {
                "absent": [], "observer": "local", "began_at": "2026-01-01T00:00:00Z",
                "verified_at": "2026-01-01T00:00:01Z", "level": level,
            },
        })
    }

    fn bundle(items: &Value, missing: &Value) -> ReceiptList {
        let complete = missing.as_array().is_some_and(Vec::is_empty);
        serde_json::from_value(json!({
            "project": "shop", "project_id": "prj_1", "complete": complete,
            "items": items, "missing": missing,
        }))
        .unwrap()
    }

    #[test]
    fn complete_bundle_says_how_to_read_it_later() {
        let items = json!([
            item("service", "web", "svc_1", "api_absence"),
            item("project", "shop", "prj_1", "forced"),
        ]);
        let list = bundle(&items, &json!([]));
        assert_eq!(
            table(&list).render(Style::new(false)),
            "\
KIND      NAME   ID      VERIFIED               PROOF
service   web    svc_1   2026-01-01 00:00:01Z   api_absence
project   shop   prj_1   2026-01-01 00:00:01Z   forced"
        );
        assert_eq!(
            summary(&list),
            "complete: 2 receipts; show one with `trueup receipt ID`, all with `trueup receipts prj_1`"
        );
    }

    #[test]
    fn incomplete_bundle_names_what_has_no_receipt() {
        let items = json!([item("service", "old", "svc_1", "api_absence")]);
        let missing = json!([
            { "subject": "svc_2", "kind": "service", "name": "web", "desired": "deleted" },
            { "subject": "prj_1", "kind": "project", "name": "shop", "desired": "active" },
        ]);
        let list = bundle(&items, &missing);
        assert_eq!(
            table(&list).render(Style::new(false)),
            "\
KIND      NAME   ID      VERIFIED               PROOF
service   old    svc_1   2026-01-01 00:00:01Z   api_absence
service   web    svc_2   -                      none yet: being deleted
project   shop   prj_1   -                      none: not deleted"
        );
        assert_eq!(summary(&list), "not complete: 2 of 3 without a receipt");
    }

    #[test]
    fn receipt_names_its_subject_and_the_project() {
        let found = item("service", "web", "svc_1", "api_absence");
        let text = page(&serde_json::from_value(found).unwrap());
        assert!(
            text.starts_with(
                "\
service/web is gone
  id            svc_1
  project       shop (prj_1)
  verified at   2026-01-01 00:00:01Z
  proof level   API absence"
            ),
            "{text}"
        );
    }
}
