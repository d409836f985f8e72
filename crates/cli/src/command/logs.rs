//! `trueup logs`: what a service's pods print.

use futures::StreamExt;
use trueup_api::client::LogQuery;
use trueup_api::log::LogLine;

use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// Show what a service's pods print
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Go on with the lines to come
    #[arg(short, long)]
    follow: bool,
    /// So many of the newest lines of each pod
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    tail: u32,
    /// Only this pod
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.ask("reading the service", reading).await?;
    let query = LogQuery { tail: Some(args.tail), follow: args.follow, pod: args.pod };
    let opening = connection.client.service_logs(&service.project, &service.id, &query);
    let mut lines = context.ask("opening the log", opening).await?;
    while let Some(line) = lines.next().await {
        show(&line?, context)?;
    }
    Ok(Exit::Ok)
}

/// Prints one line. What is to be known about a log is no part of it, and goes beside it.
pub fn show(line: &LogLine, context: &Context) -> anyhow::Result<()> {
    if context.output.print_item(context.terminal, line)? {
        return Ok(());
    }
    match &line.notice {
        Some(notice) => context.terminal.note(&about(&line.pod, notice))?,
        None => context.terminal.line(&told(line, context.terminal.style()))?,
    }
    Ok(())
}

fn about(pod: &str, notice: &str) -> String {
    if pod.is_empty() { clean(notice) } else { format!("{} {}", clean(pod), clean(notice)) }
}

/// The pod in front of what it printed, which may not move the cursor.
fn told(line: &LogLine, style: Style) -> String {
    let pod = style.paint(Paint::Faint, &clean(&line.pod));
    format!("{pod}  {}", clean(line.line.as_deref().unwrap_or_default()))
}
