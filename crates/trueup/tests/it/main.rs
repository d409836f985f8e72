//! End-to-end tests: the real binary with its embedded Postgres and a real local Kubernetes.
//!
//! Tests only do what a user can do: run commands, call the API, read the cluster and kill
//! processes.

// Clippy treats helpers as test code only under `cfg(test)`.
#[cfg(test)]
mod access;
#[cfg(test)]
mod acknowledged;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod domain_verification;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod findings;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod install;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod load;
#[cfg(test)]
mod log;
#[cfg(test)]
mod meddler;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod real_node;
#[cfg(test)]
mod recognise;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod run_result;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tally;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod variables;
#[cfg(test)]
mod wait;
