//! Resolves the server, credentials, project and service of a command.

pub mod connection;
pub mod context;
pub mod contexts;
pub mod scope;
pub mod target;
pub mod targets;
