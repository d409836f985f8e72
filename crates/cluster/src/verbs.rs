//! The six verbs: everything the executor can ask of a cluster, and the ways an answer can fail.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::survey::Contents;

/// What a call answers.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// One cluster, asked in six ways. Every call ends within a deadline of the implementation's own.
///
/// Reads are fresh: `get` and `list` answer from the quorum, never from a cache of the server that
/// may be older than what was already seen.
pub trait Cluster: Debug + Send + Sync {
    /// The object under this key, or nothing if the server says that there is none.
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>>;

    /// All objects of a kind in this scope, with the version to watch from.
    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List>;

    /// The same for our objects, with nothing but their metadata where the server can do that: a
    /// cheaper way to see what is there and at which version.
    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        self.list(kind, Scope::Ours)
    }

    /// What changes among our objects of a kind after this version. Ends after about twenty seconds
    /// (the server sends a bookmark first), so that silence is noticed; the caller watches again.
    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>>;

    /// Server-side apply with Trueup's field manager, taking fields over by force. Creates or
    /// changes; answers with the object as stored. A `metadata.resourceVersion` in it is a guard on
    /// what stands there, and none on an object that is made.
    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value>;

    /// A JSON merge patch. A `metadata.resourceVersion` or `metadata.uid` in it is a guard: the
    /// server refuses the patch with [`CallError::Conflict`] where they differ.
    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value>;

    /// Deletes this incarnation in the background, if its uid and version are still these;
    /// [`CallError::Conflict`] where they are not. An object that is already gone is a success.
    fn delete<'a>(&'a self, key: &'a ResourceKey, uid: &'a str, version: &'a str)
    -> Answer<'a, ()>;

    /// What an apply or a patch would come to: admitted, defaulted and validated like one, and then not
    /// stored. Answers with the object as it would be; of one that would be made, the uid is an example.
    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        let _nothing_is_tried = draft;
        let why = format!("this cluster cannot try a write to {key}");
        Box::pin(async move { Err(CallError::Refused(why)) })
    }

    /// What the cluster warned of lately about one incarnation: its events, whole. They are best effort
    /// and kept for an hour, so they prove nothing; they are asked for only where nothing else says why.
    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        let _nobody_knows = (key, uid);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Everything in a namespace, of every kind that the cluster serves, known to Trueup or not, and
    /// what could not be listed. It is asked before a namespace is deleted, and never else.
    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        let why = format!("this cluster cannot list everything in {namespace}");
        Box::pin(async move { Err(CallError::Refused(why)) })
    }
}

/// A write that is only tried.
#[derive(Debug, Clone, Copy)]
pub enum Draft<'a> {
    /// As [`Cluster::apply`] would write it.
    Apply(&'a Value),
    /// As [`Cluster::patch`] would.
    Patch(&'a Value),
}

/// Which objects of a kind are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that carry Trueup's label: `app.kubernetes.io/managed-by=trueup`, or for pods, which
    /// never carry it, the selector label `trueup.dev/name`. Of nodes and volumes, which are never
    /// labelled for us, every one.
    Ours,
    /// Every one in the cluster.
    All,
}

/// A whole set at one version.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The objects, complete.
    pub objects: Vec<Value>,
    /// The version the set is true at.
    pub version: String,
}

/// One thing a watch said.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// An object is there now, new or changed.
    Present(Value),
    /// An object is gone, in the state it had last.
    Gone(Value),
    /// Nothing happened up to this version.
    Bookmark(String),
}

/// Why a call did not answer. The variants are what the executor decides by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody is there: nothing was sent, so nothing was done.
    #[error("the cluster does not answer: {0}")]
    Unreachable(String),
    /// It was sent and no answer came: it may or may not have been done.
    #[error("no answer came in time; the call may have been carried out: {0}")]
    Unanswered(String),
    /// The version to watch from is too old (410): list again.
    #[error("the watch fell behind and must start from a new list")]
    Expired,
    /// A guard did not hold (409), or a create met an object that is already there.
    #[error("somebody else changed the object first: {0}")]
    Conflict(String),
    /// Credentials are missing or do not suffice (401, 403 by authorisation).
    #[error("the cluster forbids this: {0}")]
    Forbidden(String),
    /// The kind is not served here.
    #[error("the cluster does not know this kind: {0}")]
    UnknownKind(String),
    /// The object itself is refused (400, 403 by admission or quota, 422).
    #[error("the cluster refuses the object: {0}")]
    Refused(String),
    /// Too many requests (429): ask again after this long.
    #[error("the cluster asks to slow down")]
    Throttled {
        /// How long the server asks to wait.
        after: Duration,
    },
    /// The server broke (5xx): nothing is known about the effect of a write.
    #[error("the cluster's API server failed: {0}")]
    Server(String),
}

impl CallError {
    /// Whether the cluster as a whole cannot be asked now: a reason to defer, not a failure.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unanswered(_) | Self::Server(_))
    }

    /// Whether this says that the cluster takes no objects of the kind that was asked for.
    #[must_use]
    pub const fn absent(&self) -> Option<Absent> {
        match self {
            Self::UnknownKind(_) => Some(Absent::Unserved),
            Self::Forbidden(_) => Some(Absent::Forbidden),
            Self::Unreachable(_)
            | Self::Unanswered(_)
            | Self::Expired
            | Self::Conflict(_)
            | Self::Refused(_)
            | Self::Throttled { .. }
            | Self::Server(_) => None,
        }
    }

    /// A bounded label for metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Unanswered(_) => "unanswered",
            Self::Expired => "expired",
            Self::Conflict(_) => "conflict",
            Self::Forbidden(_) => "forbidden",
            Self::UnknownKind(_) => "unknown_kind",
            Self::Refused(_) => "refused",
            Self::Throttled { .. } => "throttled",
            Self::Server(_) => "server",
        }
    }
}
