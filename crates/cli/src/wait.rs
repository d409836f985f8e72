//! Waits until a service meets a condition.

pub(crate) mod follow;
pub(crate) mod until;
