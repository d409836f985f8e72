//! Event streams: one reader per org, many watchers, a limit on open streams.

pub(crate) mod feed;
pub(crate) mod limit;
pub(crate) mod watch;
