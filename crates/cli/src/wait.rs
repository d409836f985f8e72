//! Waiting for a service: what may be waited for, and following it until then.

pub(crate) mod follow;
pub(crate) mod until;
