//! Test support: real dependencies and fakes. Not part of any shipped binary.
//!
//! - [`test_db`]: a separate database per test on a real Postgres; [`own_postgres`]: a whole server
//! - [`pg_proxy`]: a TCP proxy in front of Postgres that injects faults
//! - [`fake_cluster`]: an in-memory cluster; [`contract`]: checks that it behaves like a real one
//! - [`real_kube`]: a real API server; [`real_dns`]: a real DNS server; [`real_oidc`]: a real identity provider
//! - [`manual_clock`]: time that the test advances; [`virtual_clock`]: time that skips idle waits
//! - [`report_batch`]: reports recorded as numbered batches
//! - [`usage`]: usage of services, as the meter stores it
//! - [`left_out`]: reports checks that cannot run on this machine
//! - [`harness`]: fault injection, with every fault at every place where a workload can meet it

pub mod contract;
pub mod fake_cluster;
pub mod harness;
pub mod left_out;
pub mod manual_clock;
pub mod own_postgres;
pub mod pg_proxy;
pub mod real_dns;
pub mod real_kube;
pub mod real_oidc;
pub mod report_batch;
pub mod test_db;
pub mod usage;
pub mod virtual_clock;
