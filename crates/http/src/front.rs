//! What every request passes before its handler: limits, authentication and strict parsing; and
//! the problem responses.

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
