//! `trueup events`: the event log of the org.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use strum::VariantNames;
use tokio::time::sleep;
use trueup_api::Client;
use trueup_api::client::{ClientError, ServiceQuery};
use trueup_api::event::{CloudEvent, EventFilter, EventPage};
use trueup_model::event::EventType;

use crate::clock;
use crate::command::receipt::find_service;
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::output::event_line::event_line;
use crate::output::human::{clean, duration};
use crate::output::progress::Progress;
use crate::output::spelling::nearest;
use crate::output::style::Paint;

const PAGE: u32 = 1000;
const MIN_BACKOFF: Duration = Duration::from_millis(300);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Show the event log
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only events of this service (NAME, PROJECT/NAME or svc_…) or project (prj_… or `project NAME`)
    #[arg(num_args = 0..=2, value_name = "NAME")]
    name: Vec<String>,
    /// Only events of the last while, such as 1h or 30m
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["after", "last"])]
    since: Option<Duration>,
    /// Follow new events
    #[arg(short, long)]
    follow: bool,
    /// Only events of this type, such as ServicePhaseChanged
    #[arg(long = "type", value_name = "TYPE", value_parser = event_type)]
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
    let subject = subject(&args.name, context, &connection).await?;
    let names = Names::read(context, &connection).await?;
    let filter = EventFilter { subject, kind: args.kind, generation: args.generation };
    let progress = Progress::new(context.terminal, "reading the events");
    let mut reader = Reader { context, client, filter, names, progress, after: args.after };
    match (&reader.after, args.since) {
        (Some(_), _) => reader.print_pages().await?,
        (None, Some(since)) => reader.print_since(since).await?,
        (None, None) => reader.print_last(args.last).await?,
    }
    if args.follow {
        reader.follow().await?;
    }
    Ok(Exit::Ok)
}

/// Lists the newest events, of a service if one is named.
pub async fn list(name: Option<&str>, context: &Context) -> anyhow::Result<Exit> {
    let name = name.map(str::to_owned).into_iter().collect();
    let (kind, generation, after, since) = (None, None, None, None);
    run(Args { name, since, follow: false, kind, generation, after, last: 50 }, context).await
}

/// A type of events: it must be one, or nothing would ever match.
fn event_type(text: &str) -> Result<String, String> {
    if EventType::VARIANTS.contains(&text) {
        return Ok(text.to_owned());
    }
    let meant = nearest(text, EventType::VARIANTS);
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    Err(format!("no events have this type{meant}"))
}

/// The id of the named service or project.
async fn subject(
    name: &[String],
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Option<String>> {
    match name {
        [] => Ok(None),
        [project] if project.starts_with("prj_") => Ok(Some(project.clone())),
        [kind, project] if kind == "project" => {
            let reading = connection.client.project_get(project);
            Ok(Some(context.wait("reading the project", reading).await?.id))
        }
        [kind, _] if kind != "service" => {
            let message = format!("`{kind}` has no events of its own");
            Err(Failure::new(Exit::Usage, message)
                .hint("write a service, or `project NAME`")
                .into())
        }
        [.., name] => {
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
    names: Names,
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
                self.print(event)?;
            }
            self.after = Some(event.sequence.clone());
        }
        Ok(())
    }

    /// Prints the events of the last while, and goes on after them.
    async fn print_since(&mut self, since: Duration) -> anyhow::Result<()> {
        let from = clock::now().checked_sub(since).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut recent = Vec::new();
        let mut before = None;
        loop {
            let page = EventPage::NewestBefore(before);
            let reading = self.client.event_list(&self.filter, &page, Some(PAGE));
            let page = self.progress.wait(reading).await?;
            // They are in the order in which they were recorded, which is nearly that of their times.
            let is_last = page.items.last().is_none_or(|oldest| oldest.time < from);
            recent.extend(page.items.into_iter().filter(|event| event.time >= from));
            if is_last {
                break;
            }
            before = Some(page.next);
        }
        self.after =
            recent.first().map_or_else(|| Some("0".to_owned()), |it| Some(it.sequence.clone()));
        for event in recent.iter().rev() {
            self.print(event)?;
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
                self.print(event)?;
            }
            if page.items.is_empty() {
                return Ok(());
            }
            self.after = Some(page.next);
        }
    }

    fn print(&self, event: &CloudEvent) -> anyhow::Result<()> {
        let terminal = self.context.terminal;
        if !self.context.output.print_item(terminal, event)? {
            let place = format!("{:>6} {}", event.sequence, clean(self.names.of(&event.subject)));
            let style = terminal.style();
            let place = style.paint(Paint::Faint, &place);
            terminal.line(&format!("{place}  {}", event_line(event, style)))?;
        }
        Ok(())
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
            self.print(&event?)?;
            self.after = watch.position().map(str::to_owned);
        }
        Ok(())
    }
}

/// The names of the services and projects that there are, by their ids.
struct Names(BTreeMap<String, String>);

impl Names {
    async fn read(context: &Context, connection: &Connection) -> anyhow::Result<Self> {
        if context.output.is_for_programs() {
            return Ok(Self(BTreeMap::new()));
        }
        let client = &connection.client;
        let reading = async {
            let services = client.every_service(ServiceQuery::default()).await?.items;
            anyhow::Ok((services, client.project_list().await?.items))
        };
        let (services, projects) = context.wait("reading the names", reading).await?;
        let services =
            services.into_iter().map(|it| (it.id, format!("{}/{}", it.project, it.name)));
        let projects = projects.into_iter().map(|it| (it.id, it.name));
        Ok(Self(services.chain(projects).collect()))
    }

    /// The name, or the id of what is gone.
    fn of<'a>(&'a self, subject: &'a str) -> &'a str {
        self.0.get(subject).map_or(subject, String::as_str)
    }
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
