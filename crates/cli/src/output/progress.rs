//! A progress line on stderr for waits longer than two seconds.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::output::human::{clean, duration_text};
use crate::output::terminal::Terminal;

const SHOW_AFTER: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// A progress line for one or more waits on the same thing.
#[derive(Debug)]
pub struct Progress {
    terminal: Terminal,
    what: String,
    began: Instant,
}

impl Progress {
    /// Starts the elapsed time.
    pub fn new(terminal: Terminal, what: &str) -> Self {
        Self { terminal, what: clean(what), began: Instant::now() }
    }

    /// Changes the text.
    pub fn set(&mut self, what: &str) {
        self.what = clean(what);
    }

    /// Awaits the future and shows the line after two seconds; removes it on return.
    pub async fn wait<F: Future>(&self, future: F) -> F::Output {
        let mut future = Box::pin(future);
        if !self.terminal.is_live() {
            return future.await;
        }
        let began = Instant::now();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut frames = FRAMES.iter().cycle();
        let mut shown = false;
        loop {
            tokio::select! {
                biased;
                output = &mut future => {
                    if shown {
                        self.show("");
                    }
                    return output;
                }
                _ = ticks.tick() => {
                    if began.elapsed() >= SHOW_AFTER {
                        shown = true;
                        let frame = frames.next().unwrap_or(&' ');
                        let elapsed = duration_text(self.began.elapsed());
                        self.show(&format!("{frame} {} ({elapsed})", self.what));
                    }
                }
            }
        }
    }

    /// Draws the line; errors are ignored.
    fn show(&self, text: &str) {
        match self.terminal.moving(text) {
            Ok(()) | Err(_) => {}
        }
    }
}
