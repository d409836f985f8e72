//! The only room that talks to Kubernetes.
//!
//! [`Cluster`] is the seam below: six verbs over JSON objects, implemented by [`kube::Kube`] for a
//! real API server and by `testkit::FakeCluster` for tests; one contract suite runs on both.
//! [`Executor`] is the seam above: orders in, reports out.

mod absence;
mod act;
mod brake;
mod cache;
mod compact;
mod doubt;
mod echo;
mod executor;
mod fence;
mod follow;
mod force;
pub mod kube;
mod notice;
mod packed;
mod pass;
mod refusal;
mod resync;
mod survey;
mod switch;
mod throttle;
mod told;
pub mod verbs;

pub use brake::Brake;
pub use echo::Echo;
pub use executor::{Executor, Parts, Unrehearsed, Why};
pub use fence::Fence;
pub use notice::Notices;
pub use switch::Switch;
pub use verbs::{CallError, Cluster, Draft, Heard, List, Scope};
