//! `trueup logs`: the logs of a service's pods.

use futures::StreamExt;
use trueup_api::client::LogQuery;
use trueup_api::log::LogLine;

use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// Show the logs of a service's pods
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Follow the log
    #[arg(short, long)]
    follow: bool,
    /// Number of newest lines per pod
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    tail: u32,
    /// Only this pod
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    let query = LogQuery { tail: Some(args.tail), follow: args.follow, pod: args.pod };
    let opening = connection.client.service_logs(&service.project, &service.id, &query);
    let mut lines = context.wait("opening the log", opening).await?;
    while let Some(line) = lines.next().await {
        show(&line?, context)?;
    }
    Ok(Exit::Ok)
}

/// Prints one line. Notices about the log go to stderr.
pub fn show(line: &LogLine, context: &Context) -> anyhow::Result<()> {
    if context.output.print_item(context.terminal, line)? {
        return Ok(());
    }
    match &line.notice {
        Some(notice) => context.terminal.note(&notice_line(&line.pod, notice))?,
        None => context.terminal.line(&log_line(line, context.terminal.style()))?,
    }
    Ok(())
}

fn notice_line(pod: &str, notice: &str) -> String {
    if pod.is_empty() { clean(notice) } else { format!("{} {}", clean(pod), clean(notice)) }
}

/// The pod's name and its log line, without control characters.
fn log_line(line: &LogLine, style: Style) -> String {
    let pod = style.paint(Paint::Faint, &clean(&line.pod));
    format!("{pod}  {}", clean(line.line.as_deref().unwrap_or_default()))
}
