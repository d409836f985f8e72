//! Drift: what is decided about differences between a cluster and its desired state.

pub mod admit;
pub mod adopt;
pub mod decide;
pub mod fight;
pub mod price;
pub mod regression;
