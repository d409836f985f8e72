//! Fetches, builds, starts, adopts and stops the embedded Postgres and the local Kubernetes.
//!
//! Both survive a `kill -9` of trueup on purpose. Otherwise every crash of trueup would also be a
//! crash of the database and the cluster; instead the next start finds what still runs and adopts
//! it (see [`supervise`]).

mod files;
pub mod kube;
pub mod layout;
pub mod postgres;
pub mod progress;
pub mod supervise;

pub use files::FileError;
pub use progress::{Progress, Stage};
