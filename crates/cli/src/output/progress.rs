//! A moving line on stderr that says what is waited for, once a wait is long enough to wonder.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::output::human::{clean, written};
use crate::output::terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// Something that is waited for, in one or many waits.
#[derive(Debug)]
pub struct Progress {
    terminal: Terminal,
    what: String,
    began: Instant,
}

impl Progress {
    /// Begins to count.
    pub fn new(terminal: Terminal, what: &str) -> Self {
        Self { terminal, what: clean(what), began: Instant::now() }
    }

    /// Says what is waited for from now on.
    pub fn set(&mut self, what: &str) {
        self.what = clean(what);
    }

    /// Awaits the future, with a moving line after two seconds. The line is gone when it returns.
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
                    if began.elapsed() >= PATIENCE {
                        shown = true;
                        let frame = frames.next().unwrap_or(&' ');
                        let elapsed = written(self.began.elapsed());
                        self.show(&format!("{frame} {} ({elapsed})", self.what));
                    }
                }
            }
        }
    }

    /// A moving line that cannot be drawn is no reason to fail.
    fn show(&self, text: &str) {
        match self.terminal.moving(text) {
            Ok(()) | Err(_) => {}
        }
    }
}
