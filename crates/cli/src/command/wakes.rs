//! `trueup wakes`: the work queue, with its dead wakes.

use trueup_api::client::WakeQuery;
use trueup_api::wake::{Wake, WakeList};
use trueup_model::wake::WakeState;

use crate::clock;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::age;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// List the work queue and requeue dead wakes (operators)
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Only wakes in this state
    #[arg(long, value_name = "STATE", value_parser = ["queued", "running", "dead"])]
    state: Option<String>,
    /// Only wakes of this lane
    #[arg(long, value_name = "LANE", value_parser = ["user_change", "delete", "repair", "sweep"])]
    lane: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Requeue a dead wake
    Requeue {
        /// svc_… or prj_…
        subject: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    if let Some(Command::Requeue { subject, dry }) = args.command {
        let writing = dry.begin(&client);
        let wake = context.wait("requeueing", writing.client().wake_requeue(&subject)).await?;
        if writing.previewed(&format!("wake/{subject}"), context)? {
            return Ok(Exit::Ok);
        }
        if !context.output.print(context.terminal, &wake)? {
            let Wake { subject, state, .. } = &wake;
            context.terminal.line(&format!("wake/{subject} is {state}"))?;
        }
        return Ok(Exit::Ok);
    }
    let mut query = WakeQuery { state: args.state, lane: args.lane, after: None };
    let mut list = WakeList { items: Vec::new(), next: None };
    loop {
        let page = context.wait("reading the wakes", client.wake_list(&query)).await?;
        list.items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["SUBJECT", "LANE", "STATE", "DUE", "ATTEMPTS", "LAST ERROR"]);
    for wake in &list.items {
        table.row(row(wake));
    }
    let hint = || "the work queue is empty";
    show(&table, list.items.is_empty(), context, "wakes", hint)
}

fn row(wake: &Wake) -> Vec<Cell> {
    let paint = match wake.state {
        WakeState::Dead => Paint::Bad,
        WakeState::Running => Paint::Busy,
        WakeState::Queued => Paint::Plain,
    };
    vec![
        Cell::plain(&wake.subject),
        Cell::plain(wake.lane.into_str()),
        Cell::new(paint, wake.state.into_str()),
        Cell::plain(&age(clock::now(), wake.due_at)),
        Cell::plain(&wake.attempts.to_string()),
        Cell::plain(wake.last_error.as_deref().unwrap_or_default()),
    ]
}
