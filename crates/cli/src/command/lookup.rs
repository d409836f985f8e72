//! `trueup lookup`: what an id refers to.

use trueup_api::lookup::Lookup;

use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::human::clean;

/// Say what an id refers to: svc_…, evt_…, dvg_… and others
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An id, as printed by another command or found in a log
    id: String,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let found = context.wait("looking up the id", client.lookup_get(&args.id)).await?;
    if !context.output.print(context.terminal, &found)? {
        context.terminal.line(&line(&found))?;
    }
    Ok(Exit::Ok)
}

fn line(found: &Lookup) -> String {
    let owner = match (&found.project, &found.service) {
        (Some(project), Some(service)) => format!(" ({project}/{service})"),
        (Some(project), None) => format!(" (project {project})"),
        (None, _) => String::new(),
    };
    clean(&format!("{} {}{owner}: GET {}", found.kind, found.name, found.path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn line_names_the_object_and_where_it_is() {
        let found: Lookup = serde_json::from_value(json!({
            "id": "evt_1", "kind": "event", "name": "ServiceQueued", "project": "shop",
            "service": "web", "service_id": "svc_1", "path": "/v1/events/evt_1",
        }))
        .unwrap();
        assert_eq!(line(&found), "event ServiceQueued (shop/web): GET /v1/events/evt_1");
    }
}
