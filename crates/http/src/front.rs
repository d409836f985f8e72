//! What every request passes before its handler: limits, authentication and strict parsing; and
//! the problem responses.

pub(crate) mod body;
pub(crate) mod caller;
pub(crate) mod compress;
pub(crate) mod concurrency;
mod connection;
pub(crate) mod cookie;
pub(crate) mod cursor;
pub(crate) mod deadline;
pub(crate) mod extract;
pub(crate) mod fair_slots;
pub(crate) mod headers;
pub(crate) mod host;
mod idle;
pub(crate) mod problem;
pub(crate) mod proxy;
pub(crate) mod read_repair;
pub(crate) mod same_site;
pub(crate) mod serve;
mod stalled;
pub(crate) mod tls;
pub(crate) mod token_in_url;
pub(crate) mod trace;
