//! Limits on open streams, by weight: what each holds open besides its own connection. An event stream
//! weighs 1, a log stream 1 for each pod that it reads.
//!
//! Event streams of an org share one database reader ([`crate::stream::feed`]), and all streams
//! share the check of their tokens ([`crate::stream::token_watch`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trueup_api::Code;
use trueup_model::OrgId;

use crate::front::problem::{Answer, Failure};
use crate::stream::feed::Feeds;
use crate::stream::token_watch::TokenWatch;

/// The open streams of this process. Clones share the sums.
#[derive(Debug, Clone)]
pub struct Streams {
    open: Arc<Mutex<BTreeMap<OrgId, usize>>>,
    each: usize,
    all: usize,
    feeds: Feeds,
    tokens: TokenWatch,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new(1_000, 10_000)
    }
}

impl Streams {
    /// Limits for each org and for the process.
    #[must_use]
    pub fn new(each: usize, all: usize) -> Self {
        let (feeds, tokens) = (Feeds::default(), TokenWatch::default());
        Self { open: Arc::default(), each, all, feeds, tokens }
    }

    /// The database readers that event streams share.
    pub(crate) const fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// The checks of the tokens of all streams.
    pub(crate) const fn tokens(&self) -> &TokenWatch {
        &self.tokens
    }

    /// Adds a stream of this weight to those of an org, until the returned guard is dropped.
    pub(crate) fn open(&self, org: OrgId, weight: usize) -> Answer<Open> {
        let mut open = self.lock();
        let theirs = open.get(&org).copied().unwrap_or(0);
        let (after, all) = (theirs.saturating_add(weight), open.values().sum::<usize>());
        let limit = if after > self.each {
            Some(format!("the org's stream limit is reached ({theirs} of {})", self.each))
        } else if all.saturating_add(weight) > self.all {
            Some(format!("the server's stream limit is reached ({})", self.all))
        } else {
            None
        };
        if let Some(limit) = limit {
            let detail = format!(
                "{limit}; close a stream, read the log of one pod, retry later, or poll /v1/events"
            );
            return Err(Failure::new(Code::TooManyStreams, detail));
        }
        open.insert(org, after);
        drop(open);
        Ok(Open { streams: self.clone(), org, weight })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OrgId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open stream; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Open {
    streams: Streams,
    org: OrgId,
    weight: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.org) {
            *count = count.saturating_sub(self.weight);
            if *count == 0 {
                open.remove(&self.org);
            }
        }
    }
}
