//! Showing what the slow parts do: a moving line for a person, a line now and then for a log.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use trueup_local::Progress;

use trueup_cli::clock;
use trueup_cli::output::terminal::Terminal;

/// How often a step that goes on is told again where lines cannot move.
const TELL_AGAIN: Duration = Duration::from_secs(20);

/// Shows what the slow parts do, for ever: as a moving line, or as lines now and then.
pub(crate) async fn tell(terminal: Terminal, progress: &Progress) {
    let mut told = BTreeMap::new();
    let mut moved = false;
    loop {
        let steps = progress.steps();
        if steps.is_empty() && moved {
            // Nothing is going on any more: the line that moved goes away.
            moved = terminal.moving("").is_err();
        }
        for step in steps {
            let line = step.line(clock::now());
            let shown = if terminal.is_live() {
                moved = true;
                terminal.moving(&line)
            } else {
                let last = told.get(step.part);
                let again = last.is_none_or(|(what, at): &(String, Instant)| {
                    *what != step.what || at.elapsed() >= TELL_AGAIN
                });
                if again {
                    told.insert(step.part, (step.what.clone(), Instant::now()));
                    terminal.note(&line)
                } else {
                    Ok(())
                }
            };
            if shown.is_err() {
                // Nobody reads it any more; serving goes on.
                std::future::pending::<()>().await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
