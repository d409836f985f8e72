//! `trueup describe`: the full state of one service.

use jiff::Timestamp;
use trueup_api::event::{CloudEvent, EventFilter};
use trueup_api::service::Service;

use crate::clock;
use crate::command::events::newest;
use crate::command::receipt::find_service;
use crate::connect::context::{Connection, Context};
use crate::connect::target::service_name;
use crate::failure::Exit;
use crate::output::drift;
use crate::output::event_line::event_line;
use crate::output::hours;
use crate::output::human::{age, clean, moment};
use crate::output::receipt;
use crate::output::style::{self, Paint, Style};

/// How many events are shown.
const EVENTS: usize = 10;

/// Show the full state of one service
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…; by its id also a deleted service. `service NAME` is the same
    #[arg(required = true, num_args = 1..=2, value_name = "NAME")]
    name: Vec<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = find_service(service_name(&args.name)?, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    if context.output.print(context.terminal, &service)? {
        return Ok(Exit::Ok);
    }
    let filter = EventFilter { subject: Some(service.id.clone()), ..EventFilter::default() };
    let reading = newest(&connection.client, &filter, EVENTS);
    let events = context.wait("reading its events", reading).await?;
    let mut page = page(&service, &events, clock::now(), context.terminal.style());
    let mut lines = Vec::new();
    let ports = endpoints(&service, context, &connection).await?;
    section(&mut lines, "Endpoints", context.terminal.style(), ports);
    if !lines.is_empty() {
        page = format!("{page}\n{}", lines.join("\n"));
    }
    context.terminal.line(&page)?;
    Ok(Exit::Ok)
}

/// One line per endpoint. A deleted service has none, and its project may be gone.
async fn endpoints(
    service: &Service,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Vec<String>> {
    if service.receipt.is_some() {
        return Ok(Vec::new());
    }
    let reading = connection.client.endpoint_list(&service.project);
    let all = context.wait("reading its endpoints", reading).await?.items;
    let own = all.iter().filter(|one| one.service == service.name);
    Ok(own
        .map(|one| {
            clean(&format!("{}: {} {}, {}", one.name, one.reached_at(), one.protocol, one.state))
        })
        .collect())
}

/// The text of the page.
fn page(service: &Service, events: &[CloudEvent], now: Timestamp, style: Style) -> String {
    let mut lines =
        vec![style.paint(Paint::Strong, &format!("{}/{}", service.project, service.name))];
    let status = &service.status;
    let mut field = |name: &str, value: String| lines.push(format!("  {name:<16}{value}"));
    field("id", clean(&service.id));
    field("template", clean(&service.template));
    if let Some(plan) = &service.plan {
        let price = service.monthly.as_ref().map(|price| format!(", {} a month", price.text));
        field("plan", clean(&format!("{plan}{}", price.unwrap_or_default())));
    }
    if let Some(pods) = &status.pods {
        field("pods", format!("{} of {} ready", pods.ready, pods.wanted));
    }
    let by_hours = service.schedule.as_ref().is_some_and(|schedule| schedule.off);
    let cause = if by_hours { " by its active hours" } else { "" };
    field("desired", format!("{}{cause}", service.desired));
    field("generation", generation(service, now));
    field("reconciliation", service.reconciliation.to_string());
    if let Some(hours) = hours::line(service) {
        field("active hours", hours);
    }
    if let Some(saving) = service.schedule.as_ref().and_then(hours::saving) {
        field("", saving);
    }
    if let Some(freeze) = &service.frozen {
        let what = format!("{} by {}: {}", freeze.scope, freeze.by, freeze.reason);
        field("frozen", style.paint(Paint::Busy, &clean(&what)));
    }
    let since = format!("since {} ({} ago)", moment(status.since), age(now, status.since));
    field(
        "phase",
        format!("{}, {since}", style.paint(style::phase(status.phase), status.phase.into_str())),
    );
    field("health", health(service, now, style));
    if status.simulated {
        field("simulated", "yes: its pods are on simulated nodes, where nothing runs".to_owned());
    }
    field("cluster", clean(&service.cluster));
    field("namespace", clean(&service.namespace));
    field("object name", clean(&service.object_name));

    section(&mut lines, "Parameters", style, parameters(service));
    let conditions =
        status.conditions.iter().map(|one| format!("{}: {}", one.reason, clean(&one.message)));
    section(&mut lines, "Conditions", style, conditions.collect());
    section(&mut lines, "Drift", style, divergences(service, style));
    let objects = service.objects.iter().map(|object| {
        let uid = object.uid.as_deref().unwrap_or("recorded, not observed");
        let seen = object.last_seen_at.map(|at| format!(", seen {} ago", age(now, at)));
        format!(
            "{}  {}",
            clean(&format!("{}/{}", object.kind, object.name)),
            style.paint(Paint::Faint, &clean(&format!("{uid}{}", seen.unwrap_or_default())))
        )
    });
    section(&mut lines, "Objects", style, objects.collect());
    if let Some(receipt) = &service.receipt {
        section(&mut lines, "Deletion receipt", style, receipt::lines(receipt));
    }
    section(
        &mut lines,
        "Last events",
        style,
        events.iter().map(|event| event_line(event, style)).collect(),
    );
    lines.join("\n")
}

fn section(lines: &mut Vec<String>, title: &str, style: Style, content: Vec<String>) {
    if content.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(style.paint(Paint::Strong, title));
    lines.extend(content.into_iter().map(|line| format!("  {line}")));
}

/// One line per difference that stands, and where to see more of them.
fn divergences(service: &Service, style: Style) -> Vec<String> {
    let mut lines: Vec<String> =
        service.divergences.iter().map(|difference| drift::line(difference, style)).collect();
    if !lines.is_empty() {
        let command = format!("trueup drift {}/{}", service.project, service.name);
        let more = format!("`{}` shows since when, and what it costs", clean(&command));
        lines.push(style.paint(Paint::Faint, &more));
    }
    lines
}

fn generation(service: &Service, now: Timestamp) -> String {
    let applied = match service.status.applied_generation {
        Some(applied) if applied == service.generation => "applied".to_owned(),
        Some(applied) => format!("generation {applied} is applied"),
        None => "none applied yet".to_owned(),
    };
    format!("{}, accepted {} ago; {applied}", service.generation, age(now, service.accepted_at))
}

fn health(service: &Service, now: Timestamp, style: Style) -> String {
    let status = &service.status;
    let mut text = style.paint(style::health(status.health), status.health.into_str());
    if let Some(last) = status.last_known_health {
        text.push_str(&format!(", last known {last}"));
    }
    match status.observed_at {
        Some(at) => text.push_str(&format!(
            "; observed in cluster {} at {} ({} ago)",
            clean(&service.cluster),
            moment(at),
            age(now, at)
        )),
        None => text.push_str("; not observed yet"),
    }
    if let Some(at) = status.confirmed_at {
        text.push_str(&format!(", confirmed {} ago", age(now, at)));
    }
    text
}

fn parameters(service: &Service) -> Vec<String> {
    let show = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => clean(text),
        other => clean(&other.to_string()),
    };
    service
        .parameters
        .iter()
        .map(|(name, value)| format!("{}: {}", clean(name), show(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use trueup_api::service::{ServiceCondition, ServiceObject};

    use super::*;
    use crate::output::drift::tests::replicas;
    use crate::wait::until::tests::service;
    use trueup_model::key::Kind;
    use trueup_model::status::Reason;

    #[test]
    fn page_shows_state_conditions_and_objects() {
        let mut one = service("updating", "degraded", Some(2));
        one.status.simulated = true;
        one.status.observed_at = "2026-01-01T00:00:50Z".parse().ok();
        one.status.confirmed_at = "2026-01-01T00:00:58Z".parse().ok();
        one.status.conditions.push(ServiceCondition {
            reason: Reason::PodsNotReady,
            message: "1 of 2 pods is ready; check the image".to_owned(),
            cause: None,
            object: None,
            uid: None,
        });
        one.divergences.push(replicas("in_conflict"));
        one.objects.push(ServiceObject {
            kind: Kind::Deployment,
            namespace: "shop-1".to_owned(),
            name: "web-1".to_owned(),
            uid: Some("u-1".to_owned()),
            last_seen_at: "2026-01-01T00:00:57Z".parse().ok(),
        });
        one.objects.push(ServiceObject {
            kind: Kind::Service,
            namespace: "shop-1".to_owned(),
            name: "web-1".to_owned(),
            uid: None,
            last_seen_at: None,
        });
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            page(&one, &[], now, Style::new(false)),
            "\
shop/web
  id              svc_1
  template        web@1
  desired         active
  generation      3, accepted 1m ago; generation 2 is applied
  reconciliation  pending
  phase           updating, since 2026-01-01 00:00:10Z (50s ago)
  health          degraded; observed in cluster local at 2026-01-01 00:00:50Z (10s ago), confirmed 2s ago
  simulated       yes: its pods are on simulated nodes, where nothing runs
  cluster         local
  namespace       shop-1
  object name     web-1

Parameters
  replicas: 2

Conditions
  pods_not_ready: 1 of 2 pods is ready; check the image

Drift
  spec.replicas of Deployment/web-1: 2 → 5, by kubectl-scale; in conflict: not enforced until it is settled
  `trueup drift shop/web` shows since when, and what it costs

Objects
  Deployment/web-1  u-1, seen 3s ago
  Service/web-1  recorded, not observed"
        );
    }
}
