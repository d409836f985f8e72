//! Which server, which credentials, which project and service a command means.

pub mod connection;
pub mod context;
pub mod contexts;
pub mod place;
pub mod target;
