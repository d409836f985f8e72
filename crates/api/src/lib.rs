//! Wire types (bodies, problems, events) and a typed client of the API.
//!
//! Each noun has one file, with its wire types and the client's methods; `client` sends the requests.
//!
//! Request bodies are strict: unknown fields are rejected. Wire types are separate from the model,
//! so that the model can change without changing what clients see.

pub mod access;
pub mod audit;
pub mod billing;
pub mod budget;
pub mod client;
pub mod cluster;
pub mod comparison;
pub mod conflict;
pub mod cost;
pub mod credit;
pub mod domain;
pub mod drift;
pub mod endpoint;
pub mod event;
pub mod finding;
pub mod freeze;
pub mod invitation;
pub mod invoice;
pub mod ledger;
pub mod log;
pub mod lookup;
pub mod member;
pub mod org;
pub mod overview;
pub mod plan;
pub mod preview;
pub mod preview_request;
pub mod problem;
pub mod project;
pub mod provider;
pub mod quota;
pub mod receipt;
pub mod release;
pub mod schema;
pub mod secret;
pub mod service;
pub mod session;
pub mod setup;
pub mod subscription;
pub mod template;
pub mod token;
pub mod transition;
pub mod variable;
pub mod volume;
pub mod wake;
pub mod why;

pub use client::{Client, RetryNotice};
pub use problem::{Code, FieldError, Problem};
