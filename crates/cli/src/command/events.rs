//! `trueup events`: the event log of the org.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::event::{CloudEvent, EventFilter, EventPage};

use crate::command::receipt::find_service;
use crate::connect::context::{Connection, Context};
use crate::failure::Exit;
use crate::output::event_line::event_line;
use crate::output::progress::Progress;
use crate::output::style::Paint;

const PAGE: u32 = 1000;
const MIN_BACKOFF: Duration = Duration::from_millis(300);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Show the event log
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only events of this service (NAME, PROJECT/NAME or svc_…) or project (prj_…)
    name: Option<String>,
    /// Follow new events
    #[arg(short, long)]
    follow: bool,
    /// Only events of this type, such as ServicePhaseChanged
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events of this generation of the service or project
    #[arg(long, value_name = "NUMBER", requires = "name", conflicts_with = "follow")]
    generation: Option<i64>,
    /// Start after this position (an event's sequence)
    #[arg(long, value_name = "POSITION", conflicts_with = "last")]
    after: Option<String>,
    /// Start with the newest COUNT events
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    last: usize,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let client = &connection.client;
    let subject = subject(args.name.as_deref(), context, &connection).await?;
    let filter = EventFilter { subject, kind: args.kind, generation: args.generation };
    let progress = Progress::new(context.terminal, "reading the events");
    let mut reader = Reader { context, client, filter, progress, after: args.after };
    match reader.after {
        Some(_) => reader.print_pages().await?,
        None => reader.print_last(args.last).await?,
    }
    if args.follow {
        reader.follow().await?;
    }
    Ok(Exit::Ok)
}

/// The id of the named service or project.
async fn subject(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Option<String>> {
    match name {
        None => Ok(None),
        Some(project) if project.starts_with("prj_") => Ok(Some(project.to_owned())),
        Some(name) => {
            let reading = find_service(name, context, connection);
            Ok(Some(context.wait("reading the service", reading).await?.id))
        }
    }
}

/// Prints events and tracks the position.
struct Reader<'a> {
    context: &'a Context,
    client: &'a Client,
    filter: EventFilter,
    progress: Progress,
    after: Option<String>,
}

impl Reader<'_> {
    /// Prints the newest events. In an empty log, it starts at position 0.
    async fn print_last(&mut self, count: usize) -> anyhow::Result<()> {
        // Reads at least one event: its position is the end of the log.
        let reading = newest(self.client, &self.filter, count.max(1));
        let events = self.progress.wait(reading).await?;
        self.after = Some("0".to_owned());
        for (left, event) in (1..=events.len()).rev().zip(&events) {
            if left <= count {
                print(event, self.context)?;
            }
            self.after = Some(event.sequence.clone());
        }
        Ok(())
    }

    /// Prints all events after the position.
    async fn print_pages(&mut self) -> anyhow::Result<()> {
        loop {
            let page = EventPage::After(self.after.clone());
            let reading = self.client.event_list(&self.filter, &page, Some(PAGE));
            let page = self.progress.wait(reading).await?;
            for event in &page.items {
                print(event, self.context)?;
            }
            if page.items.is_empty() {
                return Ok(());
            }
            self.after = Some(page.next);
        }
    }

    /// Prints events as they arrive; reconnects and resumes at the last position.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut backoff = MIN_BACKOFF;
        loop {
            let before = self.after.clone();
            match self.session().await {
                Ok(()) => self.progress.set("connection closed; reconnecting"),
                Err(error) => match error.downcast_ref::<ClientError>() {
                    Some(cause) if cause.is_transient() => {
                        self.progress.set(&format!("{}; retrying", cause.summary()));
                    }
                    _ => return Err(error),
                },
            }
            if self.after != before {
                backoff = MIN_BACKOFF;
            }
            self.progress.wait(sleep(backoff)).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// One connection, until it ends.
    async fn session(&mut self) -> anyhow::Result<()> {
        let opening = self.client.event_watch(&self.filter, self.after.clone());
        let mut watch = self.progress.wait(opening).await?;
        self.progress.set("waiting for events");
        while let Some(event) = self.progress.wait(watch.next()).await {
            print(&event?, self.context)?;
            self.after = watch.position().map(str::to_owned);
        }
        Ok(())
    }
}

fn print(event: &CloudEvent, context: &Context) -> anyhow::Result<()> {
    let terminal = context.terminal;
    if !context.output.print_item(terminal, event)? {
        let place = format!("{:>6} {}", event.sequence, event.subject);
        let style = terminal.style();
        terminal.line(&format!(
            "{}  {}",
            style.paint(Paint::Faint, &place),
            event_line(event, style)
        ))?;
    }
    Ok(())
}

/// The newest events, oldest first.
pub async fn newest(
    client: &Client,
    filter: &EventFilter,
    count: usize,
) -> Result<Vec<CloudEvent>, ClientError> {
    let mut events = Vec::new();
    let mut before = None;
    while events.len() < count {
        let wanted = u32::try_from(count.saturating_sub(events.len())).unwrap_or(PAGE).min(PAGE);
        let page = EventPage::NewestBefore(before);
        let page = client.event_list(filter, &page, Some(wanted)).await?;
        if page.items.is_empty() {
            break;
        }
        events.extend(page.items);
        before = Some(page.next);
    }
    events.reverse();
    Ok(events)
}
