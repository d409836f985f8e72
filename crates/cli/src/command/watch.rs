//! `trueup watch`: prints the state, then each event, until a condition holds.

use std::time::Duration;

use trueup_api::service::Service;

use crate::command::receipt::find_service;
use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::drift;
use crate::output::human::{clean, duration};
use crate::output::style::{self, Style};
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

/// Watch a service until a condition holds
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Exit once the service is healthy, settled, deleted, or in this phase
    #[arg(long, value_name = "CONDITION")]
    until: Option<Until>,
    /// Timeout for --until
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = find_service(&args.name, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    if !context.output.is_for_programs() {
        context.terminal.line(&state(&service, context.terminal.style()))?;
    }
    let timeout = args.until.is_some().then_some(args.timeout);
    let goal = Goal { until: args.until, timeout, named: false, streams: true };
    match follow(context, &connection.client, service, &goal).await? {
        Ended::Reached(service) => {
            if !context.output.is_for_programs() {
                context.terminal.line(&state(&service, context.terminal.style()))?;
            }
            Ok(Exit::Ok)
        }
        Ended::TimedOut(service) => Err(timed_out(&service, &goal).into()),
    }
}

/// The state in one line, and a line per condition and per difference that stands.
fn state(service: &Service, style: Style) -> String {
    let status = &service.status;
    let simulated = if status.simulated { " (simulated)" } else { "" };
    let mut text = format!(
        "{}/{}  generation {}  {}  {}{simulated}",
        clean(&service.project),
        clean(&service.name),
        service.generation,
        style.paint(style::phase(status.phase), status.phase.into_str()),
        style.paint(style::health(status.health), status.health.into_str()),
    );
    for condition in &status.conditions {
        text.push_str(&format!("\n  {}: {}", condition.reason, clean(&condition.message)));
    }
    for difference in &service.divergences {
        text.push_str(&format!("\n  drift: {}", drift::line(difference, style)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::drift::tests::replicas;

    #[test]
    fn state_shows_what_drifts() {
        let mut one = crate::wait::until::tests::service("running", "healthy", Some(3));
        one.divergences.push(replicas("ignored"));
        assert_eq!(
            state(&one, Style::new(false)),
            "\
shop/web  generation 3  running  healthy
  drift: spec.replicas of Deployment/web-1: 2 → 5, by kubectl-scale; ignored"
        );
    }
}
