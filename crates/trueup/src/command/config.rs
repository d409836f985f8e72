//! `trueup config check`: shows the server's configuration and everything that is wrong with it.

use clap::Subcommand;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::Exit;
use trueup_cli::output::style::Paint;
use trueup_cli::output::table::{Cell, Table};

use crate::config::{self, Flags, Loaded};

/// Check the configuration of the server
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show every setting and where it comes from, and name every wrong key and value
    Check(Box<Flags>),
}

pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let Action::Check(flags) = &args.action;
    let loaded = config::load(flags, &context.data_dir);
    if !context.output.print(context.terminal, &loaded.report())? {
        print(context, &loaded)?;
    }
    Ok(if loaded.config.is_some() { Exit::Ok } else { Exit::Failed })
}

fn print(context: &Context, loaded: &Loaded) -> anyhow::Result<()> {
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    for setting in &loaded.settings {
        table.row(vec![
            Cell::plain(setting.key),
            setting.value.as_deref().map_or_else(|| Cell::new(Paint::Faint, "-"), Cell::plain),
            Cell::new(Paint::Faint, &setting.source.to_string()),
        ]);
    }
    context.table(&table)?;
    for fault in &loaded.faults {
        context.terminal.error(&fault.to_string(), None)?;
    }
    let file = loaded.file.as_ref().map(|file| format!(" ({})", file.display()));
    let file = file.unwrap_or_else(|| " (no trueup.toml; flags and defaults)".to_owned());
    let summary = match loaded.faults.len() {
        0 => format!("The configuration is valid{file}."),
        1 => format!("1 setting is wrong{file}."),
        count => format!("{count} settings are wrong{file}."),
    };
    context.terminal.note(&summary)?;
    Ok(())
}
