//! `trueup events`: what happened in the org, in order.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::sleep;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::event::CloudEvent;

use super::context::Context;
use super::event_line::event_line;
use super::failure::Exit;
use super::progress::Progress;
use super::style::Paint;

const PAGE: u32 = 500;
const POLL: Duration = Duration::from_secs(1);

/// Show what happened, in order
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with new ones as they happen
    #[arg(short, long)]
    follow: bool,
    /// Begin after this position (the sequence of an event)
    #[arg(long, value_name = "POSITION", conflicts_with = "last")]
    after: Option<String>,
    /// Begin with this many of the newest
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    last: usize,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let client = &connection.client;
    let mut progress = Progress::new(context.terminal, "reading the events");
    let mut after = match args.after {
        Some(after) => print_from(client, Some(after), context, &progress).await?,
        None => {
            let (events, after) = progress.wait(tail(client, args.last, |_| true)).await?;
            for event in &events {
                print(event, context)?;
            }
            after
        }
    };
    if !args.follow {
        return Ok(Exit::Ok);
    }
    loop {
        progress.set("waiting for events");
        progress.wait(sleep(POLL)).await;
        match print_from(client, after.clone(), context, &progress).await {
            Ok(next) => after = next,
            Err(error) => match error.downcast_ref::<ClientError>() {
                Some(cause) if cause.is_passing() => {
                    progress.set(&format!("{}; trying again", cause.summary()));
                    progress.wait(sleep(POLL * 2)).await;
                }
                _ => return Err(error),
            },
        }
    }
}

/// Prints all pages after a position, and says where they end.
async fn print_from(
    client: &Client,
    mut after: Option<String>,
    context: &Context,
    progress: &Progress,
) -> anyhow::Result<Option<String>> {
    loop {
        let page = progress.wait(client.event_list(after.as_deref(), Some(PAGE))).await?;
        for event in &page.items {
            print(event, context)?;
        }
        let ended = page.items.is_empty() || after.as_ref() == Some(&page.next);
        after = Some(page.next);
        if ended {
            return Ok(after);
        }
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

/// The newest events that are wanted, and where the log ends. Pages go forward only, so it reads
/// the whole log.
pub(crate) async fn tail(
    client: &Client,
    keep: usize,
    wanted: impl Fn(&CloudEvent) -> bool,
) -> Result<(Vec<CloudEvent>, Option<String>), ClientError> {
    let mut newest = VecDeque::new();
    let mut after: Option<String> = None;
    loop {
        let page = client.event_list(after.as_deref(), Some(PAGE)).await?;
        let ended = page.items.is_empty() || after.as_ref() == Some(&page.next);
        for event in page.items.into_iter().filter(|event| wanted(event)) {
            newest.push_back(event);
            if newest.len() > keep {
                newest.pop_front();
            }
        }
        after = Some(page.next);
        if ended {
            return Ok((newest.into(), after));
        }
    }
}
