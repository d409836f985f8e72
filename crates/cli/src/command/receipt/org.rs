//! The deletion receipts of a whole org.

use trueup_api::receipt::OrgReceiptList;

use super::rows;
use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::human::{clean, count};
use crate::output::table::{Cell, Table};

/// Prints the receipts of an org, and whether they are complete.
pub fn show(list: &OrgReceiptList, context: &Context) -> anyhow::Result<Exit> {
    if !context.output.print(context.terminal, list)? {
        context.table(&table(list))?;
        context.terminal.note(&summary(list))?;
    }
    Ok(Exit::Ok)
}

/// How many of the org's projects and services have no receipt.
pub fn without_receipt(list: &OrgReceiptList) -> String {
    let missing: usize = list.items.iter().map(|project| project.missing.len()).sum();
    format!("{missing} of {} without a receipt", receipts(list).saturating_add(missing))
}

fn receipts(list: &OrgReceiptList) -> usize {
    list.items.iter().map(|project| project.items.len()).sum()
}

fn table(list: &OrgReceiptList) -> Table {
    let mut table = Table::new(&["PROJECT", "KIND", "NAME", "ID", "VERIFIED", "PROOF"]);
    for project in &list.items {
        for mut row in rows(project) {
            row.insert(0, Cell::plain(&project.project));
            table.row(row);
        }
    }
    table
}

/// Whether the receipts cover the whole org, and how to read them later.
fn summary(list: &OrgReceiptList) -> String {
    if list.complete {
        return format!(
            "complete: {} of {}; read them later with `trueup receipts --org {}`",
            count(receipts(list), "receipt"),
            count(list.items.len(), "project"),
            clean(&list.org_id)
        );
    }
    let left = without_receipt(list);
    match list.deleting_at {
        Some(_) => format!("not complete: {left}"),
        None => format!("not complete: {left}; org/{} is not being deleted", clean(&list.org)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::output::style::Style;

    fn bundle(deleting_at: &Value, complete: bool, missing: &Value) -> OrgReceiptList {
        let item = json!({
            "subject": "svc_1", "kind": "service", "name": "web", "project": "shop",
            "project_id": "prj_1", "verified_at": "2026-01-01T00:00:01Z",
            "receipt": {
                "absent": [], "observer": "local", "began_at": "2026-01-01T00:00:00Z",
                "verified_at": "2026-01-01T00:00:01Z", "level": "api_absence",
            },
        });
        serde_json::from_value(json!({
            "org": "acme", "org_id": "org_1", "deleting_at": deleting_at, "complete": complete,
            "items": [{"project": "shop", "project_id": "prj_1", "complete": complete,
                       "items": [item], "missing": missing}],
        }))
        .unwrap()
    }

    #[test]
    fn complete_bundle_of_an_org_says_how_to_read_it_later() {
        let list = bundle(&json!("2026-01-01T00:00:00Z"), true, &json!([]));
        assert_eq!(
            table(&list).render(Style::new(false)),
            "\
PROJECT   KIND      NAME   ID      VERIFIED               PROOF
shop      service   web    svc_1   2026-01-01 00:00:01Z   api_absence"
        );
        assert_eq!(
            summary(&list),
            "complete: 1 receipt of 1 project; read them later with `trueup receipts --org org_1`"
        );
    }

    #[test]
    fn incomplete_bundle_of_an_org_says_whether_it_is_being_deleted() {
        let mut missing =
            json!([{"subject": "prj_1", "kind": "project", "name": "shop", "desired": "deleted"}]);
        let deleting = bundle(&json!("2026-01-01T00:00:00Z"), false, &missing);
        assert_eq!(summary(&deleting), "not complete: 1 of 2 without a receipt");
        missing[0]["desired"] = json!("active");
        assert_eq!(
            summary(&bundle(&Value::Null, false, &missing)),
            "not complete: 1 of 2 without a receipt; org/acme is not being deleted"
        );
    }
}
