//! What one test logs, at every level: all that its loops say, because they run on its own thread.
//!
//! There is one subscriber for the whole process, and each thread decides whether it is heard. With a
//! subscriber for one thread alone, `tracing` would ask another thread's, which has none, whether a message
//! that this one meets first is of interest to anybody, and drop it for both.

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
    static HEARD: Cell<bool> = const { Cell::new(false) };
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
static SUBSCRIBER: Once = Once::new();

/// The log of this thread, for as long as this is there.
pub(crate) struct Log {
    /// It stays on its thread.
    _here: PhantomData<*const ()>,
}

impl Log {
    pub(crate) fn begin() -> Self {
        SUBSCRIBER.call_once(|| {
            let lines = fmt::layer().with_ansi(false).with_writer(|| Lines);
            let heard = lines.with_filter(dynamic_filter_fn(|_, _| HEARD.get()));
            tracing_subscriber::registry().with(heard).init();
        });
        HEARD.set(true);
        Self { _here: PhantomData }
    }

    /// What was logged since the beginning.
    pub(crate) fn end(self) -> String {
        String::from_utf8_lossy(&LINES.take()).into_owned()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        HEARD.set(false);
        drop(LINES.take());
    }
}

/// Adds to the log of the thread that it is used on.
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
fn a_log_has_what_its_own_thread_says_and_nothing_of_others() {
    let log = Log::begin();
    tracing::trace!("here");
    std::thread::scope(|scope| {
        scope.spawn(|| tracing::error!("elsewhere"));
    });
    let logged = log.end();
    assert!(logged.contains("here") && !logged.contains("elsewhere"), "{logged}");
}
