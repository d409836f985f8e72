//! Streams: one reader of events per org, many watchers, a limit on open streams, and the checks of
//! their tokens.

pub(crate) mod feed;
pub(crate) mod limit;
pub(crate) mod token_watch;
pub(crate) mod watch;
pub(crate) mod watched_token;
