//! The house rules that no compiler checks.

mod edges;
mod faults;
mod tidy;
