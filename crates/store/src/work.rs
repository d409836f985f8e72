//! What the control loops read and write: wakes, leases, orders, reports, divergences, event seals,
//! DNS checks, confirmations by identity providers, usage, the ledger and notifications between replicas.

pub(crate) mod accrual;
pub(crate) mod capacity;
mod confirmation;
pub(crate) mod dns_check;
mod drift;
pub(crate) mod identity;
pub(crate) mod lease;
pub(crate) mod meter;
pub(crate) mod notify;
pub(crate) mod order;
pub(crate) mod order_mark;
pub(crate) mod overdue;
pub(crate) mod proposal;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod seal;
pub(crate) mod signal;
pub(crate) mod wake;
