//! Repository rules that the compiler does not check.

mod edges;
mod faults;
mod tidy;
mod web;
