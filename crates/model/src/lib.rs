//! The domain types of Trueup, shared by every other crate.
//!
//! There is no I/O and no async here, so any crate may depend on this one. A noun has the same file
//! name in every crate: `service.rs` here, in `store` and in `http`.

pub mod active_hours;
pub mod billing;
pub mod budget;
pub mod clock;
pub mod cluster;
pub mod crash;
pub mod domain;
pub mod drift;
pub mod endpoint;
pub mod event;
pub mod finding;
pub mod freeze;
pub mod id;
pub mod invitation;
pub mod invoice;
pub mod key;
mod kind;
pub mod money;
pub mod name;
pub mod observation;
pub mod offer;
pub mod order;
pub mod org;
pub mod ownership;
pub mod plan;
pub mod preview_request;
pub mod price;
pub mod principal;
pub mod project;
pub mod provider;
pub mod quota;
pub mod receipt;
pub mod release;
pub mod report;
pub mod schema;
pub mod secret;
pub mod service;
pub mod session;
pub mod spec;
pub mod status;
pub mod subject;
pub mod survey;
pub mod template;
pub mod token;
pub mod transition;
pub mod usage;
pub mod user;
pub mod variable;
pub mod volume;
pub mod wake;
pub mod why;

pub use clock::Clock;
pub use id::{ClusterId, EventId, OrgId, ProjectId, ReleaseId, ServiceId, TokenId, UserId};
