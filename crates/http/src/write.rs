//! One way to write: dry runs, idempotency keys, preconditions, and the answer with its headers.

pub(crate) mod answer;
pub(crate) mod idempotency;
pub(crate) mod preview;
pub(crate) mod request;
