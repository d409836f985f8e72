//! For tests only: real parts and stand-ins at our own seams.
//!
//! [`test_db`] gives each test a database of its own on a real Postgres, [`fake_cluster`] a cluster
//! in memory that the contract suite holds to the real one's behaviour, [`real_kube`] the real one, [`real_dns`] a real DNS server,
//! [`manual_clock`] time that moves when the test says so, [`virtual_clock`] time that jumps to where
//! something happens. [`left_out`] counts checks that cannot run here. [`harness`] puts them together: it breaks everything it can, everywhere.

pub mod contract;
pub mod fake_cluster;
pub mod harness;
pub mod left_out;
pub mod manual_clock;
pub mod own_postgres;
pub mod pg_proxy;
pub mod real_dns;
pub mod real_kube;
pub mod test_db;
pub mod virtual_clock;
