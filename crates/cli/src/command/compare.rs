//! `trueup compare`: a service field by field, as desired, applied and observed.

use jiff::Timestamp;
use serde_json::Value;
use trueup_api::comparison::{ComparedField, Comparison, FieldState};

use crate::clock;
use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::human::age;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Compare a service field by field: desired, applied and observed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Only fields that are not as desired
    #[arg(long)]
    changed: bool,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    let reading = connection.client.service_compare(&service.project, &service.id);
    let mut found = context.wait("comparing", reading).await?;
    if args.changed {
        found.fields.retain(|field| field.state != FieldState::Same);
    }
    if context.output.print(context.terminal, &found)? {
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    context.terminal.line(&title(&found, now))?;
    if !found.fields.is_empty() {
        let mut table = table(&found.fields, now);
        table.shorten(&["DESIRED", "APPLIED", "OBSERVED"]);
        context.table(&table)?;
    }
    Ok(Exit::Ok)
}

fn title(found: &Comparison, now: Timestamp) -> String {
    let generation =
        |known: Option<i64>| known.map_or_else(|| "none".to_owned(), |g| g.to_string());
    let confirmed = match found.confirmed_at {
        Some(at) => format!("confirmed {} ago", age(now, at)),
        None => "not confirmed".to_owned(),
    };
    format!(
        "Generation {} is desired, {} applied; {confirmed}; {}.",
        found.generation,
        generation(found.applied_generation),
        found.reconciliation,
    )
}

fn table(fields: &[ComparedField], now: Timestamp) -> Table {
    let mut table = Table::new(&["FIELD", "DESIRED", "APPLIED", "OBSERVED", "STATE", "BY"]);
    for field in fields {
        let paint = match field.state {
            FieldState::Same => Paint::Plain,
            FieldState::Pending => Paint::Busy,
            FieldState::Differs => Paint::Bad,
            FieldState::Unknown => Paint::Faint,
        };
        let by = field.divergence.as_ref().map(|divergence| {
            let by = divergence.by.as_deref().unwrap_or("another writer");
            format!("{by}, {} ago", age(now, divergence.since))
        });
        table.row(vec![
            Cell::plain(&field.field),
            Cell::plain(&text(Some(&field.desired))),
            Cell::plain(&text(field.applied.as_ref())),
            Cell::plain(&text(field.observed.as_ref())),
            Cell::new(paint, field.state.into_str()),
            Cell::plain(&by.unwrap_or_default()),
        ]);
    }
    table
}

/// A value without the quotes of JSON; a dash for none.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::style::Style;

    #[test]
    fn each_field_says_what_is_desired_and_observed_and_who_changed_it() {
        let found: Comparison = serde_json::from_value(json!({
            "service": "svc_1", "generation": 4, "applied_generation": 3,
            "reconciliation": "diverged", "confirmed_at": "2026-01-01T00:00:57Z",
            "fields": [
                {"field": "image", "desired": "web:2", "applied": "web:1", "observed": "web:1",
                 "state": "pending"},
                {"field": "replicas", "desired": 3, "applied": 3, "observed": 5, "state": "differs",
                 "divergence": {"id": "dvg_1", "by": "kubectl-edit", "since": "2026-01-01T00:00:51Z",
                                "verdict": "enforce", "state": "open"}},
            ],
        }))
        .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            title(&found, now),
            "Generation 4 is desired, 3 applied; confirmed 3s ago; diverged."
        );
        let shown = table(&found.fields, now).render(Style::new(false));
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "FIELD      DESIRED   APPLIED   OBSERVED   STATE     BY",
                "image      web:2     web:1     web:1      pending",
                "replicas   3         3         5          differs   kubectl-edit, 9s ago",
            ]
        );
    }
}
