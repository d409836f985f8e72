//! Captures the log of one test at every level, including its loops, which run on the same thread.
//!
//! There is one subscriber for the whole process, with a filter by thread. With a subscriber for
//! one thread alone, `tracing` could cache the interest of another thread, which has no subscriber,
//! and drop the message for both.

use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::sync::Once;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

thread_local! {
    static CAPTURED: Cell<bool> = const { Cell::new(false) };
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
static SUBSCRIBER: Once = Once::new();

/// Captures the log of this thread until it is dropped.
pub(crate) struct Log {
    /// Not `Send`: it belongs to its thread.
    _here: PhantomData<*const ()>,
}

impl Log {
    pub(crate) fn begin() -> Self {
        SUBSCRIBER.call_once(|| {
            let lines = fmt::layer().with_ansi(false).with_writer(|| Lines);
            let captured = lines.with_filter(dynamic_filter_fn(|_, _| CAPTURED.get()));
            tracing_subscriber::registry().with(captured).init();
        });
        CAPTURED.set(true);
        Self { _here: PhantomData }
    }

    /// What was logged since the beginning.
    pub(crate) fn end(self) -> String {
        String::from_utf8_lossy(&LINES.take()).into_owned()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        CAPTURED.set(false);
        drop(LINES.take());
    }
}

/// Appends to the log of the current thread.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn log_captures_only_its_own_thread() {
    let log = Log::begin();
    tracing::trace!("here");
    std::thread::scope(|scope| {
        scope.spawn(|| tracing::error!("elsewhere"));
    });
    let logged = log.end();
    assert!(logged.contains("here") && !logged.contains("elsewhere"), "{logged}");
}
