//! Roles, connection pools, migrations, transactions and the conversion of rows.

pub(crate) mod backfill;
pub(crate) mod begin;
pub(crate) mod bootstrap;
pub(crate) mod clock;
pub(crate) mod new_id;
pub(crate) mod pool;
pub(crate) mod row;
pub(crate) mod setup;
