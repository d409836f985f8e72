//! The interface to DNS: the TXT records of a name.
//!
//! An answer is the texts, possibly none, or [`Indeterminate`], which neither confirms nor denies
//! anything. One contract test covers the real client ([`Dns`]) and the fake one.

mod resolver;

use std::fmt::Debug;

use futures::future::BoxFuture;

pub use resolver::Dns;

/// A DNS client for TXT records.
pub trait Names: Debug + Send + Sync {
    /// The text of each TXT record of this name, with the strings of one record joined; empty if
    /// DNS answers that there are none.
    fn texts<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, Indeterminate>>;
}

/// Why the TXT records of a name are unknown.
///
/// Tenants read these messages, so they do not reveal which servers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Indeterminate {
    /// No name server is configured.
    #[error(
        "no name server is configured; ask the operator to set one with `trueup up --dns-server \
         ADDRESS`"
    )]
    NoServer,
    /// The query timed out.
    #[error("no name server answered in time")]
    Silent,
    /// The name server failed.
    #[error("the name server failed (SERVFAIL); check the domain's name servers")]
    Failed,
    /// The name server refused the query.
    #[error("the name server refused the query (REFUSED)")]
    Refused,
    /// The query failed, or its answer is invalid.
    #[error("the query to the name server failed, or its answer was invalid")]
    Unread,
    /// The name exceeds the limit of DNS.
    #[error("the name is longer than DNS allows; ask the operator")]
    TooLong,
}
