//! `trueup can-i`: what the caller may do, and why.

use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Show whether you have a permission in the org or in a project, and why
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A permission such as manage_services; all of them when omitted
    permission: Option<String>,
    /// In this project; default: in the org as a whole
    #[arg(long = "in", value_name = "PROJECT")]
    within: Option<String>,
}

pub async fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let asking = client.access_check(args.permission.as_deref(), args.within.as_deref());
    let decisions = context.wait("waiting for Trueup", asking).await?;
    if !context.output.print(context.terminal, &decisions)? {
        let mut table = Table::new(&["PERMISSION", "ALLOWED", "WHY"]);
        for one in &decisions.items {
            let (paint, allowed) =
                if one.allowed { (Paint::Good, "yes") } else { (Paint::Bad, "no") };
            table.row(vec![
                Cell::plain(one.permission.into_str()),
                Cell::new(paint, allowed),
                Cell::plain(&one.reason),
            ]);
        }
        context.table(&table)?;
    }
    let refused = args.permission.is_some() && decisions.items.iter().any(|one| !one.allowed);
    Ok(if refused { Exit::Failed } else { Exit::Ok })
}
