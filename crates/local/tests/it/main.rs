//! The room against the real parts: a real Postgres, a real Kubernetes, real processes.

// Clippy takes helpers for test code only below `cfg(test)`.
#[cfg(test)]
mod kube;
#[cfg(test)]
mod place;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod supervise;
