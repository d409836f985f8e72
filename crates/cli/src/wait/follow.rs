//! Follows one service until something is true of it.
//!
//! Events say *when* to look, never *what* is true: after each that may matter the service is read
//! again and judged. It is also read now and then without an event, because health goes stale
//! without one. A broken connection is taken up where it ended.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{sleep, timeout};
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::event::CloudEvent;
use trueup_api::service::Service;

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::event_line::{event_line, short_type};
use crate::output::human::written;
use crate::output::progress::Progress;
use crate::output::style::Paint;
use crate::wait::until::{Until, WaitResult};

/// How long it goes without an event before it looks anyway.
const LOOK: Duration = Duration::from_secs(10);
/// How much longer than promised the very last look may take.
const LAST_LOOK: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What to follow for, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// What ends it; without, it follows for ever.
    pub(crate) until: Option<Until>,
    /// When to give up.
    pub(crate) timeout: Option<Duration>,
    /// Whether each line names the service, where many are followed.
    pub(crate) named: bool,
}

/// How it ended, with the service as it was last read.
#[derive(Debug)]
pub(crate) enum Ended {
    /// What was waited for is true.
    Reached(Box<Service>),
    /// It is not, and the time is over.
    TimedOut(Box<Service>),
}

/// Follows a service, and prints each event as it comes.
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
        pause: FIRST_PAUSE,
    };
    let chase = Box::pin(follower.chase(&mut service));
    let in_time = match goal.timeout {
        Some(limit) => timeout(limit, chase).await,
        None => Ok(chase.await),
    };
    if let Ok(result) = in_time {
        result?;
        return Ok(Ended::Reached(Box::new(service)));
    }
    // One last look: the end may have come with the end of the time.
    let last_look = timeout(LAST_LOOK, follower.look(&mut service)).await;
    if matches!(last_look, Ok(Ok(true))) {
        return Ok(Ended::Reached(Box::new(service)));
    }
    Ok(Ended::TimedOut(Box::new(service)))
}

/// The failure of a wait that ended too early, with all that is known.
pub(crate) fn too_late(service: &Service, goal: &Goal) -> Failure {
    let Service { project, name, status, .. } = service;
    let waited = goal.until.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string);
    let after = goal.timeout.map(written).unwrap_or_default();
    let mut message = format!(
        "{project}/{name} is not {waited} after {after}: it is {}, health {}",
        status.phase, status.health
    );
    for condition in &status.conditions {
        message.push_str(&format!("\n  {}: {}", condition.reason, condition.message));
    }
    Failure::new(Exit::TimedOut, message).hint(format!(
        "`trueup describe {project}/{name}` shows more; `trueup watch {project}/{name} --until \
         {waited}` waits on"
    ))
}

struct Follower<'a> {
    context: &'a Context,
    client: &'a Client,
    goal: &'a Goal,
    progress: Progress,
    position: Option<String>,
    newest: Option<u64>,
    pause: Duration,
}

impl Follower<'_> {
    /// One connection after another, until the goal is reached.
    async fn chase(&mut self, service: &mut Service) -> anyhow::Result<()> {
        if self.judge(service)? {
            return Ok(());
        }
        loop {
            match self.session(service).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.progress.set("the connection ended, connecting again"),
                Err(error) => match error.downcast_ref::<ClientError>() {
                    Some(cause) if cause.is_passing() => {
                        self.progress.set(&format!("{}; trying again", cause.summary()));
                    }
                    _ => return Err(error),
                },
            }
            self.progress.wait(sleep(self.pause)).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One connection. The stream is opened before the service is read, so nothing falls between.
    async fn session(&mut self, service: &mut Service) -> anyhow::Result<bool> {
        let opening =
            self.client.service_watch(&service.project, &service.id, self.position.clone());
        let mut watch = self.progress.wait(opening).await?;
        if self.look(service).await? {
            return Ok(true);
        }
        self.pause = FIRST_PAUSE;
        loop {
            self.progress.set(&self.waiting(service));
            match self.progress.wait(timeout(LOOK, watch.next())).await {
                Ok(Some(event)) => {
                    let event = event?;
                    self.position = watch.position().map(str::to_owned);
                    let matters = self.show(&event, service)?;
                    if matters && self.look(service).await? {
                        return Ok(true);
                    }
                }
                Ok(None) => return Ok(false),
                Err(_) => {
                    if self.look(service).await? {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Prints an event that is new and not about an earlier promise; says whether to look again.
    fn show(&mut self, event: &CloudEvent, service: &Service) -> anyhow::Result<bool> {
        let sequence = event.sequence.parse::<u64>().ok();
        let seen = sequence.is_some() && sequence <= self.newest;
        if seen || event.generation < service.generation {
            return Ok(false);
        }
        self.newest = sequence.or(self.newest);
        let terminal = self.context.terminal;
        if !self.context.output.print_item(terminal, event)? {
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

    /// Reads the service again and judges it.
    async fn look(&self, service: &mut Service) -> anyhow::Result<bool> {
        let reading = self.client.service_get(&service.project, &service.id);
        *service = self.progress.wait(reading).await?;
        self.judge(service)
    }

    fn judge(&self, service: &Service) -> anyhow::Result<bool> {
        match self.goal.until.as_ref().map(|until| until.judge(service)) {
            Some(WaitResult::True) => Ok(true),
            Some(WaitResult::NotYet) | None => Ok(false),
            Some(WaitResult::Never(why)) => Err(Failure::new(Exit::Failed, why)
                .hint("wait with `--until deleted`, then declare it anew")
                .into()),
        }
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

    use super::*;
    use crate::failure::explain;
    use crate::wait::until::tests::service;

    #[test]
    fn a_wait_that_is_over_says_what_is_known() {
        let mut one = service("creating", "progressing", None);
        one.status.conditions.push(ServiceCondition {
            reason: "pods_not_ready".to_owned(),
            message: "the image cannot be pulled".to_owned(),
            cause: None,
            object: None,
            uid: None,
        });
        let goal = Goal {
            until: Some(Until::Healthy),
            timeout: Some(Duration::from_secs(300)),
            named: false,
        };
        let (exit, message, hint) = explain(&too_late(&one, &goal).into());
        assert_eq!(exit, Exit::TimedOut);
        assert_eq!(
            message,
            "shop/web is not healthy after 5m: it is creating, health progressing\n  \
             pods_not_ready: the image cannot be pulled"
        );
        assert!(hint.unwrap_or_default().contains("trueup describe shop/web"));
    }
}
