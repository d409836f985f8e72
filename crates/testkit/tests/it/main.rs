//! The house rules that no compiler checks.

mod edges;
mod tidy;
