//! What all writes share: dry runs, idempotency keys, preconditions, and response headers.

pub(crate) mod answer;
pub(crate) mod idempotency;
pub(crate) mod preview;
pub(crate) mod request;
