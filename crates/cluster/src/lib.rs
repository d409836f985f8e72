//! The only crate that talks to Kubernetes.
//!
//! [`Cluster`] is the lower interface: six verbs over JSON objects, implemented by [`kube::Kube`]
//! for a real API server and by `testkit::FakeCluster` for tests; one contract suite runs on both.
//! [`Executor`] is the upper interface: orders in, reports out.

mod act;
mod executor;
pub mod kube;
mod observe;
mod switch;
pub mod verbs;

pub use act::brake::Brake;
pub use act::fence::Fence;
pub use act::in_flight::InFlightWindow;
pub use executor::{DryRunError, Executor, Parts, Why};
pub use observe::notice::Notices;
pub use switch::Switch;
pub use verbs::{CallError, Cluster, Draft, List, Scope, WatchEvent};
