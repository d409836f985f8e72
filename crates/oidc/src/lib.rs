//! The only OpenID Connect client: asks the identity providers of orgs who somebody is.
//!
//! The protocol is the `openidconnect` library's: discovery, PKCE, nonces, ID tokens and their keys. What is here is
//! where requests may go (`transport`), which answers are kept for how long, and what an answer means to Trueup.

mod address;
mod claims;
mod client;
mod discovery;
mod transport;

pub use client::{Client, Settings};
