//! `make bench`: what the release binary takes to do its work, beside a floor that does the same work
//! without Trueup, on the same parts, in the same run.
//!
//! Every bench starts its own Postgres and its own Kubernetes, empty, and ends them. Only ratios are
//! worth remembering: seconds belong to the machine they were measured on.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a bench measures real time and tells people what it saw"
)]

mod accept;
mod converge;
mod floor;
mod idle;
mod install;
mod list;
mod load;
mod machine;
mod repair;
mod sight;
mod table;
mod usage;
mod wait;

use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::machine::Machine;
use crate::table::Row;

/// All of them, in the order they run.
const BENCHES: [&str; 5] = ["converge", "repair", "idle", "accept", "list"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = asked.iter().find(|name| !BENCHES.contains(&name.as_str())) {
        bail!("there is no bench `{unknown}`; there are {}", BENCHES.join(", "));
    }
    let machine = Machine::here()?;
    println!("{machine}\n");
    let mut rows = Vec::new();
    for name in BENCHES {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            let began = Instant::now();
            eprintln!("{name}: started");
            let measured = bench(name).await.with_context(|| format!("the bench `{name}`"))?;
            eprintln!("{name}: done after {:.0} s", began.elapsed().as_secs_f64());
            table::write(name, &machine, &measured)?;
            rows.extend(measured);
        }
    }
    println!("{}", table::show(&rows));
    Ok(())
}

async fn bench(name: &str) -> anyhow::Result<Vec<Row>> {
    match name {
        "converge" => Box::pin(converge::run()).await,
        "repair" => Box::pin(repair::run()).await,
        "idle" => Box::pin(idle::run()).await,
        "accept" => Box::pin(accept::run()).await,
        _ => Box::pin(list::run()).await,
    }
}
