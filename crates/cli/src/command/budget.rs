//! `trueup budget`: how much the org or a project may spend in a billing period.

use trueup_api::budget::{Budget, BudgetBody};

use crate::command::credit::micros;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::bar::bar;
use crate::output::human::moment;
use crate::output::style::Paint;

/// The width of the bar of a whole budget.
const WIDEST: usize = 40;

/// Show the budget of the org or of a project: spent, held and left; or set it (owners)
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The budget of this project instead of the org's
    #[arg(long, global = true)]
    of: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set how much may be spent in a month (owners)
    Set {
        /// How much, such as 50 or 12.50
        #[arg(value_parser = micros)]
        amount: i64,
        /// What happens at the limit: events only, refuse what costs more, or also pause what runs
        #[arg(long, value_parser = ["warn", "refuse", "pause"], default_value = "warn")]
        at_limit: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Remove the budget (owners)
    Remove {
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let project = args.of.as_deref();
    let (writing, budget) = match args.command {
        None => {
            let budget = match project {
                Some(of) => {
                    context.wait("reading the budget", client.project_budget_get(of)).await?
                }
                None => context.wait("reading the budget", client.budget_get()).await?,
            };
            return show(&budget, context);
        }
        Some(Command::Set { amount, at_limit, dry }) => {
            let account = context.wait("reading the account", client.billing_account_get()).await?;
            let body = BudgetBody { micros: amount, currency: account.currency, at_limit };
            let writing = dry.begin(&client);
            let to = writing.client();
            let budget = match project {
                Some(of) => {
                    context.wait("setting the budget", to.project_budget_put(of, &body)).await?
                }
                None => context.wait("setting the budget", to.budget_put(&body)).await?,
            };
            (writing, budget)
        }
        Some(Command::Remove { dry }) => {
            let writing = dry.begin(&client);
            let to = writing.client();
            let budget = match project {
                Some(of) => {
                    context.wait("removing the budget", to.project_budget_delete(of)).await?
                }
                None => context.wait("removing the budget", to.budget_delete()).await?,
            };
            (writing, budget)
        }
    };
    if writing.previewed("the budget", context)? {
        return Ok(Exit::Ok);
    }
    show(&budget, context)
}

fn show(budget: &Budget, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print_item(context.terminal, budget)? {
        return Ok(Exit::Ok);
    }
    let (terminal, style) = (context.terminal, context.terminal.style());
    let Some(limit) = &budget.limit else {
        terminal.line("no budget")?;
        terminal.note("set one with `trueup budget set 50 --at-limit refuse`")?;
        return Ok(Exit::Ok);
    };
    let drawn = |micros: i64| bar(micros, limit.amount.micros, WIDEST);
    let rows = [
        ("LIMIT", format!("{} until {}", limit.amount.text, moment(budget.until))),
        ("AT LIMIT", limit.at_limit.to_string()),
        ("SPENT", format!("{:<16} {}", limit.spent.text, drawn(limit.spent.micros))),
        ("HELD", format!("{:<16} {}", limit.held.text, drawn(limit.held.micros))),
        ("LEFT", limit.left.text.clone()),
    ];
    for (label, text) in rows {
        terminal.line(format!("{:<10}{text}", style.paint(Paint::Strong, label)).trim_end())?;
    }
    Ok(Exit::Ok)
}
