//! `make bench`: measures the release binary beside a floor that does the same work without Trueup,
//! on the same components, in the same run.
//!
//! Every bench starts its own empty Postgres and Kubernetes, and stops them. Only ratios can be
//! compared: seconds depend on the machine.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a bench measures real time and prints the results"
)]

mod accept;
mod converge;
mod drift;
mod floor;
mod idle;
mod install;
mod list;
mod load;
mod machine;
mod repair;
mod table;
mod usage;
mod wait;
mod watch;

use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::machine::Machine;
use crate::table::Row;

/// All of them, in the order they run.
const BENCHES: [&str; 6] = ["converge", "repair", "drift", "idle", "accept", "list"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let requested: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = requested.iter().find(|name| !BENCHES.contains(&name.as_str())) {
        bail!("no such bench `{unknown}`; choose from {}", BENCHES.join(", "));
    }
    let machine = Machine::here()?;
    println!("{machine}\n");
    let mut rows = Vec::new();
    for name in BENCHES {
        if requested.is_empty() || requested.iter().any(|requested| requested == name) {
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
        "drift" => Box::pin(drift::run()).await,
        "idle" => Box::pin(idle::run()).await,
        "accept" => Box::pin(accept::run()).await,
        _ => Box::pin(list::run()).await,
    }
}
