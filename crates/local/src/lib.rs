//! The room that owns real parts on this machine: it fetches, builds, starts, adopts and stops the
//! embedded Postgres and the local Kubernetes.
//!
//! Both outlive a `kill -9` of trueup on purpose. A part that dies with its user would turn every
//! crash of trueup into a crash of the database and the cluster too; instead the next start finds
//! what still runs and takes it over (see [`supervise`]).

mod files;
pub mod kube;
pub mod layout;
pub mod postgres;
pub mod progress;
pub mod supervise;

pub use files::FileError;
pub use progress::{Progress, Stage};
