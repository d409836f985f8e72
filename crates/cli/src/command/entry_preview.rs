//! Says how many services a change of shared variables or secrets affects, and asks above one.
//!
//! One command can give every service of a project a new generation and new pods. The same change
//! as a dry run tells which.

use std::collections::BTreeSet;

use trueup_api::Client;
use trueup_api::client::DryRunClient;
use trueup_api::preview::{Preview, PreviewUnitKind};

use crate::confirm::Confirmation;
use crate::connect::context::Connection;
use crate::connect::scope::Scope;
use crate::dry_run::DryRun;
use crate::output::human::{clean, count};
use crate::output::terminal::Terminal;

/// How many services are named; the rest is counted.
const MOST_NAMES: usize = 10;

/// Flags of every command that changes a variable or secret.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct WriteArgs {
    #[command(flatten)]
    pub dry: DryRun,
    #[command(flatten)]
    confirmation: Confirmation,
}

impl WriteArgs {
    /// Whether the affected services are counted first: for a real change of what services share.
    pub const fn counts(self, scope: &Scope) -> bool {
        !self.dry.is_dry() && scope.service.is_none()
    }
}

/// The services that get a new generation, from a dry run of the change.
#[derive(Debug)]
pub struct AffectedServices {
    dry_run: DryRunClient,
}

impl AffectedServices {
    /// Before the dry run.
    pub fn new(connection: &Connection) -> Self {
        Self { dry_run: connection.client.dry_run() }
    }

    /// The client to dry-run the change with.
    pub const fn client(&self) -> &Client {
        self.dry_run.client()
    }

    /// Says which services the dry run changed, and asks if there are several.
    pub fn confirm(&self, write: WriteArgs, terminal: Terminal) -> anyhow::Result<()> {
        let names: BTreeSet<String> = self.dry_run.seen().into_iter().flat_map(services).collect();
        terminal.note(&line(&names))?;
        if names.len() < 2 {
            return Ok(());
        }
        let services = count(names.len(), "service");
        let question = format!("Replace the pods of {services}? Finished jobs do not run again.");
        write.confirmation.require(&format!("change {services}"), &question, terminal)
    }
}

/// The names of the services in a preview.
fn services(preview: Preview) -> impl Iterator<Item = String> {
    let units = preview.units.into_iter();
    units.filter(|unit| unit.kind == PreviewUnitKind::Service).map(|unit| unit.name)
}

/// `2 services change: shop/api, shop/web`
fn line(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "no service changes".to_owned();
    }
    let verb = if names.len() == 1 { "changes" } else { "change" };
    let mut shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| clean(name)).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    format!("{} {verb}: {}", count(names.len(), "service"), shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn affected_services_are_counted_and_named() {
        let unit = |kind: &str, name: &str| {
            json!({"kind": kind, "name": name, "generation": 2, "desired": "active",
                   "replaces_pods": true, "objects": []})
        };
        let units =
            [unit("project", "shop"), unit("service", "shop/web"), unit("service", "shop/api")];
        let preview = serde_json::from_value(json!({"changed": true, "units": units})).unwrap();
        let names: BTreeSet<String> = services(preview).collect();
        assert_eq!(line(&names), "2 services change: shop/api, shop/web");
        assert_eq!(line(&names.into_iter().take(1).collect()), "1 service changes: shop/api");
        assert_eq!(line(&BTreeSet::new()), "no service changes");
        let many = line(&(10..22).map(|number| format!("shop/{number}")).collect());
        assert!(many.starts_with("12 services change: shop/10, "), "{many}");
        assert!(many.ends_with("shop/19, and 2 more"), "{many}");
    }
}
