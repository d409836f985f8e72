//! The service list of `trueup get`, and its `--watch`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use trueup_api::client::{ClientError, ServiceQuery};
use trueup_api::event::EventFilter;
use trueup_api::service::Service;
use trueup_model::status::{Health, Phase, PodCount};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::format::Output;
use crate::output::hours;
use crate::output::human::age;
use crate::output::style::{self, Paint};
use crate::output::table::{Cell, Table};

/// Events come in bursts: the list is read once, this long after the first event.
const BURST: Duration = Duration::from_millis(200);
/// Pause before reconnecting.
const PAUSE: Duration = Duration::from_secs(1);

/// Filters of the list.
#[derive(Debug, Default, clap::Args)]
pub struct Filter {
    /// Only services whose name contains this text
    #[arg(long, value_name = "TEXT", help_heading = "Which services")]
    search: Option<String>,
    /// Only services made from this template
    #[arg(long, value_name = "NAME", help_heading = "Which services")]
    template: Option<String>,
    /// Only services of this plan
    #[arg(long, value_name = "NAME", help_heading = "Which services")]
    plan: Option<String>,
    /// Only services in this phase
    #[arg(long, value_name = "PHASE", help_heading = "Which services")]
    phase: Option<String>,
    /// Only services with this health
    #[arg(long, value_name = "HEALTH", help_heading = "Which services")]
    health: Option<String>,
    /// Only services that are settled, pending or diverged
    #[arg(long, value_name = "STATE", help_heading = "Which services")]
    reconciliation: Option<String>,
    /// Only services in this cluster
    #[arg(long, value_name = "NAME", help_heading = "Which services")]
    cluster: Option<String>,
    /// The order: name, created or changed; with a minus from the end
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true, help_heading = "Which services")]
    sort: Option<String>,
}

impl Filter {
    fn query(self, project: Option<String>) -> ServiceQuery {
        ServiceQuery {
            project,
            search: self.search,
            template: self.template,
            plan: self.plan,
            phase: self.phase,
            health: self.health,
            reconciliation: self.reconciliation,
            cluster: self.cluster,
            sort: self.sort,
            ..ServiceQuery::default()
        }
    }
}

/// Lists services, or shows one.
pub async fn list(
    name: Option<&str>,
    filter: Filter,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if let Some(name) = name {
        let reading = resolve(name, context, connection);
        let service = context.wait("reading the service", reading).await?;
        if !context.output.print(context.terminal, &service)? {
            let table = services(&[service], clock::now(), context.output);
            context.table(&table)?;
        }
        return Ok(Exit::Ok);
    }
    let reading = connection.client.every_service(filter.query(context.project.clone()));
    let list = context.wait("reading the services", reading).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    show(
        &services(&list.items, clock::now(), context.output),
        list.items.is_empty(),
        context,
        "services",
        || "declare one with `trueup apply -f FILE`",
    )
}

/// Lists services, then prints each one again when it changes. Never returns on success.
pub async fn watch(
    name: Option<&str>,
    filter: Filter,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let mut query = filter.query(context.project.clone());
    if let Some(name) = name {
        query.search = Some(name.to_owned());
    }
    let mut shown = BTreeMap::new();
    loop {
        match session(&query, name, &mut shown, context, connection).await {
            Ok(()) => {}
            Err(error) => match error.downcast_ref::<ClientError>() {
                Some(cause) if cause.is_transient() => {
                    context.terminal.note(&format!("{}; retrying", cause.summary()))?;
                }
                _ => return Err(error),
            },
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The generation, phase and health last shown, by service id.
type Shown = BTreeMap<String, (i64, Phase, Health)>;

/// One connection, until it ends. The stream opens first, so that no change is missed.
async fn session(
    query: &ServiceQuery,
    name: Option<&str>,
    shown: &mut Shown,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<()> {
    let mut events = connection.client.event_watch(&EventFilter::default(), None).await?;
    loop {
        let mut list = connection.client.every_service(query.clone()).await?.items;
        list.retain(|service| name.is_none_or(|name| service.name == name));
        print_changed(&list, shown, context)?;
        let Some(event) = events.next().await else { return Ok(()) };
        event?;
        tokio::time::sleep(BURST).await;
        while let Some(Some(event)) = futures::FutureExt::now_or_never(events.next()) {
            event?;
        }
    }
}

fn print_changed(list: &[Service], shown: &mut Shown, context: &Context) -> anyhow::Result<()> {
    let first = shown.is_empty();
    let table = services(list, clock::now(), context.output);
    let text = table.render(context.terminal.style());
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    if first && !context.output.is_for_programs() {
        context.terminal.line(heading)?;
    }
    for (service, line) in list.iter().zip(lines) {
        let now = (service.generation, service.status.phase, service.status.health);
        if shown.get(&service.id) == Some(&now) {
            continue;
        }
        shown.insert(service.id.clone(), now);
        if !context.output.print_item(context.terminal, service)? {
            context.terminal.line(line)?;
        }
    }
    Ok(())
}

/// The health cell: the health, the last known value, and whether it is simulated.
pub fn health_cell(service: &Service) -> Cell {
    let status = &service.status;
    let mut text = status.health.to_string();
    if let Some(last) = &status.last_known_health {
        text.push_str(&format!(" (was {last})"));
    }
    if status.simulated && status.health != Health::Unknown {
        text.push_str(" (simulated)");
    }
    Cell::new(style::health(status.health), &text)
}

fn services(items: &[Service], now: Timestamp, output: Output) -> Table {
    let mut heading = vec!["NAME", "PROJECT", "TEMPLATE", "PHASE", "HEALTH", "READY", "GEN", "AGE"];
    if output == Output::Wide {
        heading.extend(["PLAN", "PODS", "PER MONTH", "HOURS", "CLUSTER", "OBJECTS", "ID"]);
    }
    let mut table = Table::new(&heading);
    for service in items {
        let mut cells = vec![
            Cell::plain(&service.name),
            Cell::plain(&service.project),
            Cell::plain(&service.template),
            phase_cell(service, now),
            health_cell(service),
            ready_cell(service),
            Cell::plain(&service.generation.to_string()),
            Cell::plain(&age(now, service.created_at)),
        ];
        if output == Output::Wide {
            cells.extend([
                Cell::plain(service.plan.as_deref().unwrap_or("-")),
                Cell::plain(&pods(service)),
                Cell::plain(service.monthly.as_ref().map_or("-", |monthly| &monthly.text)),
                Cell::plain(hours::line(service).as_deref().unwrap_or("always")),
                Cell::plain(&service.cluster),
                Cell::plain(&format!("{}/{}", service.namespace, service.object_name)),
                Cell::new(Paint::Faint, &service.id),
            ]);
        }
        table.row(cells);
    }
    table
}

/// The phase; for a service that its hours paused, with the time until they resume it.
fn phase_cell(service: &Service, now: Timestamp) -> Cell {
    let phase = service.status.phase;
    let off = service.schedule.as_ref().filter(|schedule| schedule.off && phase == Phase::Paused);
    let text = match off.and_then(|schedule| schedule.next_at) {
        Some(at) => format!("{phase}, on in {}", age(at, now)),
        None => phase.to_string(),
    };
    Cell::new(style::phase(phase), &text)
}

/// The pods that are ready, of those that the cluster was asked for.
fn ready_cell(service: &Service) -> Cell {
    match service.status.pods {
        Some(PodCount { ready, wanted }) => {
            let paint = if ready < wanted { Paint::Busy } else { Paint::Plain };
            Cell::new(paint, &format!("{ready}/{wanted}"))
        }
        None => Cell::plain("-"),
    }
}

/// The desired number of pods, or the autoscaling bounds.
fn pods(service: &Service) -> String {
    match &service.autoscale {
        Some(bounds) => format!("{}-{}", bounds.min, bounds.max),
        None => service.replicas.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::Style;
    use crate::wait::until::tests::service;

    #[test]
    fn services_are_listed_with_phase_health_and_age() {
        let mut unreachable = service("running", "unknown", Some(3));
        unreachable.status.last_known_health = Some(Health::Healthy);
        let mut simulated = service("running", "healthy", Some(3));
        simulated.status.simulated = true;
        simulated.status.pods = Some(PodCount { ready: 2, wanted: 3 });
        simulated.name = "mc".to_owned();
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(
            services(&[simulated, unreachable], now, Output::Table).render(Style::new(false)),
            "\
NAME   PROJECT   TEMPLATE   PHASE     HEALTH                  READY   GEN   AGE
mc     shop      web@1      running   healthy (simulated)     2/3     3     10m
web    shop      web@1      running   unknown (was healthy)   -       3     10m"
        );
    }
}
