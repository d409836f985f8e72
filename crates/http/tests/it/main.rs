//! Tests of the API: the real router over a real Postgres, with a manual clock.

// Clippy treats helpers as test code only below `cfg(test)`.
#[cfg(test)]
mod active_hours;
#[cfg(test)]
mod bindings;
#[cfg(test)]
mod comparison;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod domain;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod dry_run;
#[cfg(test)]
mod endpoint;
#[cfg(test)]
mod event;
#[cfg(test)]
mod federation;
#[cfg(test)]
mod feed;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod front;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod invoice;
#[cfg(test)]
mod list;
#[cfg(test)]
mod log;
#[cfg(test)]
mod lookup;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod operation;
#[cfg(test)]
mod org;
#[cfg(test)]
mod org_header;
#[cfg(test)]
mod overview;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod people;
#[cfg(test)]
mod price;
#[cfg(test)]
mod problem;
#[cfg(test)]
mod project;
#[cfg(test)]
mod receipt;
#[cfg(test)]
mod recipe;
#[cfg(test)]
mod revoke;
#[cfg(test)]
mod role;
#[cfg(test)]
mod secret;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod service;
#[cfg(test)]
mod session;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod stranger;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod subscription;
#[cfg(test)]
mod template;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod token;
#[cfg(test)]
mod token_create;
#[cfg(test)]
mod unavailable;
#[cfg(test)]
mod volume;
#[cfg(test)]
mod watch;
