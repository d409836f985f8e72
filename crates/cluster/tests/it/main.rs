//! Clusters from outside: one contract, two implementations.

mod contract_fake;
mod contract_real;
mod fake_controls;
