//! The seam to DNS: which texts a name has.
//!
//! An answer is the texts, which may be none, or a doubt. A doubt is neither a yes nor a no: nothing is
//! decided by it. What the real one does ([`Dns`]) and what a test's does are held to one contract.

mod dns;

use std::fmt::Debug;

use futures::future::BoxFuture;

pub use dns::Dns;

/// Somebody who can ask DNS.
pub trait Names: Debug + Send + Sync {
    /// The text of each TXT record of this name, the strings of one record joined; none where DNS says
    /// that there are none.
    fn texts<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, Indeterminate>>;
}

/// Why nobody knows which texts a name has. Tenants read these: nothing in them tells which servers are
/// asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Indeterminate {
    /// There is nobody to ask.
    #[error(
        "this Trueup knows no name server; the operator can name one with `trueup up --dns-server \
         ADDRESS`"
    )]
    NoServer,
    /// No answer in time.
    #[error("no name server answered in time")]
    Silent,
    /// The name server could not find out.
    #[error("the name server could not find out (SERVFAIL); check the name servers of the domain")]
    Failed,
    /// The name server does not want to answer.
    #[error("the name server refuses to say (REFUSED)")]
    Refused,
    /// The answer is of another kind, or cannot be read.
    #[error("the name server could not be asked, or its answer could not be read")]
    Unread,
    /// DNS has no name this long.
    #[error("the name is longer than DNS allows; ask the operator")]
    TooLong,
}
