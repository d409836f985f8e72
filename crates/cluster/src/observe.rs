//! Reading a cluster: watches, the object cache, resync, namespace surveys and warning events.

pub(crate) mod cache;
pub(crate) mod compact;
pub(crate) mod follow;
pub(crate) mod notice;
pub(crate) mod packed;
pub(crate) mod resync;
pub(crate) mod survey;
pub(crate) mod warnings;
