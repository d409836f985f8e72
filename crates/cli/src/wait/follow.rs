//! Follows one service until a condition holds.
//!
//! Events only say *when* to read the service, never *what* its state is: after each relevant event
//! it is read and evaluated. It is also polled, because health can go stale without an event. A
//! broken stream resumes at its last position.

use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{sleep, timeout};
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::event::CloudEvent;
use trueup_api::service::Service;

use crate::clock;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::event_line::{event_line, short_type};
use crate::output::human::duration_text;
use crate::output::progress::Progress;
use crate::output::style::Paint;
use crate::wait::until::{Until, WaitResult};

/// How long to wait for an event before reading the service anyway.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How long a wait goes on although the reason against it lasts.
const STUCK_FOR: SignedDuration = SignedDuration::from_secs(8);
/// How often the service is read meanwhile.
const STUCK_POLL: Duration = Duration::from_secs(2);
/// How long the final read after the timeout may take.
const FINAL_READ: Duration = Duration::from_secs(2);
const MIN_BACKOFF: Duration = Duration::from_millis(300);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// What to wait for, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// The condition to wait for; `None` follows forever.
    pub(crate) until: Option<Until>,
    /// When to stop waiting.
    pub(crate) timeout: Option<Duration>,
    /// Whether each line names the service; set when several are followed.
    pub(crate) named: bool,
    /// Whether programs get the events, too: otherwise only what the command returns.
    pub(crate) streams: bool,
}

/// How following ended, with the service as last read.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The condition holds.
    Reached(Box<Service>),
    /// The timeout passed first.
    TimedOut(Box<Service>),
}

/// Follows a service and prints its events as they arrive.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    mut service: Service,
    goal: &Goal,
) -> anyhow::Result<Ended> {
    let mut follower = Follower {
        context,
        client,
        goal,
        progress: Progress::new(context.terminal, ""),
        position: None,
        newest: None,
        backoff: MIN_BACKOFF,
        stuck: None,
    };
    let run = Box::pin(follower.run(&mut service));
    let in_time = match goal.timeout {
        Some(limit) => timeout(limit, run).await,
        None => Ok(run.await),
    };
    if let Ok(result) = in_time {
        result?;
        return Ok(Ended::Reached(Box::new(service)));
    }
    // A final read: the condition may have become true just before the timeout.
    let final_read = timeout(FINAL_READ, follower.refresh(&mut service)).await;
    if matches!(final_read, Ok(Ok(true))) {
        return Ok(Ended::Reached(Box::new(service)));
    }
    Ok(Ended::TimedOut(Box::new(service)))
}

/// The failure of a wait that timed out, with the current conditions.
pub(crate) fn timed_out(service: &Service, goal: &Goal) -> Failure {
    let Service { project, name, status, .. } = service;
    let waited = goal.until.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string);
    let after = goal.timeout.map(duration_text).unwrap_or_default();
    let mut message = format!(
        "{project}/{name} is not {waited} after {after}: phase {}, health {}",
        status.phase, status.health
    );
    for condition in &status.conditions {
        message.push_str(&format!("\n  {}: {}", condition.reason, condition.message));
    }
    Failure::new(Exit::TimedOut, message).hint(format!(
        "`trueup describe {project}/{name}` shows more; `trueup watch {project}/{name} --until \
         {waited}` keeps waiting"
    ))
}

struct Follower<'a> {
    context: &'a Context,
    client: &'a Client,
    goal: &'a Goal,
    progress: Progress,
    position: Option<String>,
    newest: Option<u64>,
    backoff: Duration,
    /// Since when the condition fails for a reason that lasts.
    stuck: Option<Timestamp>,
}

impl Follower<'_> {
    /// Reconnects until the condition holds.
    async fn run(&mut self, service: &mut Service) -> anyhow::Result<()> {
        if self.evaluate(service)? {
            return Ok(());
        }
        loop {
            match self.session(service).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.progress.set("connection closed; reconnecting"),
                Err(error) => match error.downcast_ref::<ClientError>() {
                    Some(cause) if cause.is_transient() => {
                        self.progress.set(&format!("{}; retrying", cause.summary()));
                    }
                    _ => return Err(error),
                },
            }
            self.progress.wait(sleep(self.backoff)).await;
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// One connection. The stream opens before the service is read, so no change is missed.
    async fn session(&mut self, service: &mut Service) -> anyhow::Result<bool> {
        let opening =
            self.client.service_watch(&service.project, &service.id, self.position.clone());
        let mut watch = self.progress.wait(opening).await?;
        if self.refresh(service).await? {
            return Ok(true);
        }
        self.backoff = MIN_BACKOFF;
        loop {
            self.progress.set(&self.waiting(service));
            match self.progress.wait(timeout(self.poll_interval(), watch.next())).await {
                Ok(Some(event)) => {
                    let event = event?;
                    self.position = watch.position().map(str::to_owned);
                    let matters = self.show(&event, service)?;
                    if matters && self.refresh(service).await? {
                        return Ok(true);
                    }
                }
                Ok(None) => return Ok(false),
                Err(_) => {
                    if self.refresh(service).await? {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Prints a new event of the current generation; returns whether to read the service again.
    fn show(&mut self, event: &CloudEvent, service: &Service) -> anyhow::Result<bool> {
        let sequence = event.sequence.parse::<u64>().ok();
        let seen = sequence.is_some() && sequence <= self.newest;
        if seen || event.generation < service.generation {
            return Ok(false);
        }
        self.newest = sequence.or(self.newest);
        let terminal = self.context.terminal;
        if self.context.output.is_for_programs() {
            if self.goal.streams {
                self.context.output.print_item(terminal, event)?;
            }
        } else {
            let line = event_line(event, terminal.style());
            if self.goal.named {
                let name = format!("{}/{}", service.project, service.name);
                terminal
                    .line(&format!("{}  {line}", terminal.style().paint(Paint::Faint, &name)))?;
            } else {
                terminal.line(&line)?;
            }
        }
        Ok(event.generation > service.generation
            || matches!(
                short_type(event),
                "ServicePhaseChanged"
                    | "ReconcileSucceeded"
                    | "AbsenceVerified"
                    | "ServiceDeleteForced"
            ))
    }

    /// Reads the service again and evaluates the condition.
    async fn refresh(&mut self, service: &mut Service) -> anyhow::Result<bool> {
        let reading = self.client.service_get(&service.project, &service.id);
        *service = self.progress.wait(reading).await?;
        self.evaluate(service)
    }

    fn evaluate(&mut self, service: &Service) -> anyhow::Result<bool> {
        let result = self.goal.until.as_ref().map(|until| until.evaluate(service));
        if !matches!(result, Some(WaitResult::Stuck(_))) {
            self.stuck = None;
        }
        match result {
            Some(WaitResult::True) => Ok(true),
            Some(WaitResult::NotYet) | None => Ok(false),
            Some(WaitResult::Never { why, hint }) => {
                Err(Failure::new(Exit::Failed, why).hint(hint).into())
            }
            Some(WaitResult::Stuck(why)) => {
                // Pods of the generation before may be there for a moment.
                let since = *self.stuck.get_or_insert_with(clock::now);
                if clock::now().duration_since(since) < STUCK_FOR {
                    return Ok(false);
                }
                Err(Failure::new(Exit::Failed, why)
                    .hint("fix it and apply again, or `trueup rollback` to the release before")
                    .into())
            }
        }
    }

    /// How long to wait for an event before reading the service anyway.
    const fn poll_interval(&self) -> Duration {
        if self.stuck.is_some() { STUCK_POLL } else { POLL_INTERVAL }
    }

    fn waiting(&self, service: &Service) -> String {
        let name = format!("{}/{}", service.project, service.name);
        let now = format!("{}, {}", service.status.phase, service.status.health);
        let why = service.status.conditions.first().map(|condition| condition.message.as_str());
        let why = why.map(|why| format!("; {why}")).unwrap_or_default();
        match &self.goal.until {
            Some(until) => format!("waiting for {name} to be {until}: {now}{why}"),
            None => format!("watching {name}: {now}{why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use trueup_api::service::ServiceCondition;
    use trueup_model::status::Reason;

    use super::*;
    use crate::failure::explain;
    use crate::wait::until::tests::service;

    #[test]
    fn timeout_message_lists_the_conditions() {
        let mut one = service("creating", "progressing", None);
        one.status.conditions.push(ServiceCondition {
            reason: Reason::PodsNotReady,
            message: "the image cannot be pulled".to_owned(),
            cause: None,
            object: None,
            uid: None,
        });
        let goal = Goal {
            until: Some(Until::Healthy),
            timeout: Some(Duration::from_secs(300)),
            named: false,
            streams: false,
        };
        let (exit, message, hint) = explain(&timed_out(&one, &goal).into());
        assert_eq!(exit, Exit::TimedOut);
        assert_eq!(
            message,
            "shop/web is not healthy after 5m: phase creating, health progressing\n  \
             pods_not_ready: the image cannot be pulled"
        );
        assert!(hint.unwrap_or_default().contains("trueup describe shop/web"));
    }
}
