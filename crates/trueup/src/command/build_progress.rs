//! Shows the progress of builds and starts: a progress line, or periodic lines without a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use trueup_local::Progress;

use trueup_cli::clock;
use trueup_cli::output::terminal::Terminal;

/// How often an unfinished step is printed again without a terminal.
const REPEAT_INTERVAL: Duration = Duration::from_secs(20);

/// Shows the progress; never returns.
pub(crate) async fn show(terminal: Terminal, progress: &Progress) {
    let mut printed = BTreeMap::new();
    let mut drawn = false;
    loop {
        let steps = progress.steps();
        if steps.is_empty() && drawn {
            // Nothing is in progress any more: clear the line.
            drawn = terminal.moving("").is_err();
        }
        for step in steps {
            let line = step.line(clock::now());
            let shown = if terminal.is_live() {
                drawn = true;
                terminal.moving(&line)
            } else {
                let last = printed.get(step.part);
                let again = last.is_none_or(|(what, at): &(String, Instant)| {
                    *what != step.what || at.elapsed() >= REPEAT_INTERVAL
                });
                if again {
                    printed.insert(step.part, (step.what.clone(), Instant::now()));
                    terminal.note(&line)
                } else {
                    Ok(())
                }
            };
            if shown.is_err() {
                // The terminal is closed; serving continues.
                std::future::pending::<()>().await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
