//! The built files of the dashboard, embedded in the binary.
//!
//! A crate of its own: a new build of the dashboard compiles this list again and links the binary,
//! and nothing else. `trueup_http::Dashboard` serves the files.

/// The path and the content of every file of `web/build`, in the order of the paths; empty if the
/// dashboard was not built.
pub const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
