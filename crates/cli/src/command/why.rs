//! `trueup why`: the chain of causes behind a service's state.

use jiff::Timestamp;
use trueup_api::why::Why;

use crate::clock;
use crate::connect::context::{Connection, Context};
use crate::connect::target::{resolve, service_name};
use crate::failure::Exit;
use crate::output::human::{age, clean, moment};
use crate::output::style::{Paint, Style};

/// Explain why a service or a project is in its current state
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…; `project NAME` for a project
    #[arg(required = true, num_args = 1..=2, value_name = "NAME")]
    name: Vec<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    if let [kind, name] = args.name.as_slice()
        && kind == "project"
    {
        return project(name, context, &connection).await;
    }
    let reading = resolve(service_name(&args.name)?, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    let reading = connection.client.service_why(&service.project, &service.id);
    let why = context.wait("reading the explanation", reading).await?;
    if context.output.print(context.terminal, &why)? {
        return Ok(Exit::Ok);
    }
    let title = format!("{}/{}", service.project, service.name);
    context.terminal.line(&page(&title, &why, clock::now(), context.terminal.style()))?;
    Ok(Exit::Ok)
}

/// A project has no chain of its own: its status says what it waits for.
async fn project(name: &str, context: &Context, connection: &Connection) -> anyhow::Result<Exit> {
    let reading = connection.client.project_get(name);
    let project = context.wait("reading the project", reading).await?;
    if context.output.print(context.terminal, &project)? {
        return Ok(Exit::Ok);
    }
    let status = &project.status;
    let mut lines = vec![format!(
        "project {} is {} and {}, {}; generation {}",
        clean(&project.name),
        status.phase,
        status.health,
        project.reconciliation,
        project.generation
    )];
    lines.extend(status.conditions.iter().map(|one| {
        let object = one.object.as_ref().map(|object| format!(" ({})", clean(object)));
        format!("  {}: {}{}", one.reason, clean(&one.message), object.unwrap_or_default())
    }));
    context.terminal.line(&lines.join("\n"))?;
    context.terminal.note(&format!("its services: trueup get services --project {name}"))?;
    Ok(Exit::Ok)
}

fn page(title: &str, why: &Why, now: Timestamp, style: Style) -> String {
    let answer = format!("{}: {}", clean(title), clean(&why.answer));
    let mut lines = vec![style.paint(Paint::Strong, &answer)];
    for link in &why.links {
        let at = link.at.map(|at| format!("  {} ({} ago)", moment(at), age(now, at)));
        let at = style.paint(Paint::Faint, &at.unwrap_or_default());
        lines.push(format!("  {:<9} {}{at}", link.step.into_str(), clean(&link.text)));
        for proof in &link.proof {
            lines.push(format!("            {}", style.paint(Paint::Faint, &clean(proof))));
        }
    }
    if let Some(unblock) = &why.unblock {
        lines.push(format!("  {:<9} {}", "unblocks", clean(unblock)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_comes_first_and_evidence_below() {
        let why: Why = serde_json::from_value(json!({
            "service": "svc_1", "answer": "the service is creating and error: no image",
            "links": [
                { "step": "asked", "text": "owner requested generation 1 (`declare`): desired state running",
                  "at": "2026-01-01T00:00:00Z", "proof": ["rel_1", "evt_1"] },
                { "step": "waiting", "text": "pod web-0: no image", "at": "2026-01-01T00:00:10Z",
                  "proof": ["Pod/web-0 u-1"] },
            ],
            "unblock": "check the image's name",
        }))
        .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            page("shop/web", &why, now, Style::new(false)),
            "\
shop/web: the service is creating and error: no image
  asked     owner requested generation 1 (`declare`): desired state running  2026-01-01 00:00:00Z (1m ago)
            rel_1
            evt_1
  waiting   pod web-0: no image  2026-01-01 00:00:10Z (50s ago)
            Pod/web-0 u-1
  unblocks  check the image's name"
        );
    }
}
