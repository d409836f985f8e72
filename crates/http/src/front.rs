//! What every request passes before a handler sees it: limits, authentication, strict parsing; and the
//! problem responses that it gets when something is wrong.

pub(crate) mod body;
pub(crate) mod caller;
pub(crate) mod concurrency;
pub(crate) mod cursor;
pub(crate) mod deadline;
pub(crate) mod extract;
pub(crate) mod problem;
pub(crate) mod read_repair;
pub(crate) mod serve;
pub(crate) mod token_in_url;
pub(crate) mod trace;
