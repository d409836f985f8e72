//! Tests against a real Postgres, a real Kubernetes and real processes.

// Clippy treats helpers as test code only below `cfg(test)`.
#[cfg(test)]
mod kube;
#[cfg(test)]
mod place;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod supervise;
