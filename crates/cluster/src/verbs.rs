//! The six verbs that the executor uses on a cluster, and how a call can fail.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::survey::Contents;

/// The future of a call's result.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// Client of one cluster. Every call ends within the implementation's deadline.
///
/// Reads are consistent: `get` and `list` are quorum reads, never answered from a server cache that
/// may be older than what was already seen.
pub trait Cluster: Debug + Send + Sync {
    /// Returns the object at this key, or `None` if the server says that it does not exist.
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>>;

    /// Lists all objects of a kind in this scope, with the version to watch from.
    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List>;

    /// Lists our objects of a kind, with metadata only where the server supports it: a cheaper way
    /// to compare versions.
    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        self.list(kind, Scope::Ours)
    }

    /// The same in one namespace, for kinds that may only be listed inside of a project.
    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        Box::pin(async move {
            let mut list = self.versions(kind).await?;
            list.objects.retain(|object| object["metadata"]["namespace"] == namespace);
            Ok(list)
        })
    }

    /// Streams changes of our objects of a kind after this version. Ends after about twenty seconds
    /// (the server sends a bookmark first), so that a silent watch is detected; the caller watches
    /// again.
    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>>;

    /// Forced server-side apply with Trueup's field manager. Creates or updates; returns the object
    /// as stored. A `metadata.resourceVersion` in the object is a precondition on an existing
    /// object; it does not apply to a create.
    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value>;

    /// A JSON merge patch. A `metadata.resourceVersion` or `metadata.uid` in it is a precondition:
    /// where they differ the result is [`CallError::Conflict`].
    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value>;

    /// Deletes the object in the background if it still has this uid and version, and returns
    /// [`CallError::Conflict`] otherwise. An object that is already gone is a success.
    fn delete<'a>(&'a self, key: &'a ResourceKey, uid: &'a str, version: &'a str)
    -> Answer<'a, ()>;

    /// Dry run of an apply or a patch: admitted, defaulted and validated, but not stored. Returns
    /// the object as it would be; for a create, the uid is only an example.
    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        let _unused = draft;
        let why = format!("this cluster client does not support dry runs; cannot try {key}");
        Box::pin(async move { Err(CallError::Refused(why)) })
    }

    /// Returns the recent Warning events of the object with this uid. Events are best effort and
    /// kept for an hour, so they prove nothing; they are read only where nothing else gives a
    /// cause.
    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        let _unused = (key, uid);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Lists everything in a namespace, of every kind that the cluster serves, known to Trueup or
    /// not, and what could not be listed. Used only before a namespace is deleted or
    /// force-completed.
    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        let why = format!(
            "this cluster client does not support surveys; cannot list namespace {namespace}"
        );
        Box::pin(async move { Err(CallError::Refused(why)) })
    }
}

/// A write for a dry run.
#[derive(Debug, Clone, Copy)]
pub enum Draft<'a> {
    /// As [`Cluster::apply`] would write it.
    Apply(&'a Value),
    /// As [`Cluster::patch`] would.
    Patch(&'a Value),
}

/// Which objects of a kind to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that carry Trueup's label: `app.kubernetes.io/managed-by=trueup`, or for pods, which
    /// never carry it, the selector label `trueup.dev/name`. For nodes and volumes, which never
    /// carry our labels: all of them.
    Ours,
    /// All objects of the kind in the cluster.
    All,
}

/// All objects of a list at one version.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The objects, complete.
    pub objects: Vec<Value>,
    /// The version that the list represents.
    pub version: String,
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// An object was added or modified.
    Present(Value),
    /// An object was deleted; this is its last state.
    Gone(Value),
    /// No other change happened up to this version.
    Bookmark(String),
}

/// Why a call failed. The executor decides by the variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection: nothing was sent, so nothing was done.
    #[error("cluster unreachable: {0}")]
    Unreachable(String),
    /// The request was sent and no response came: it may or may not have taken effect.
    #[error("no response from the cluster; the call may have taken effect: {0}")]
    Unanswered(String),
    /// The version to watch from is too old (410): list again.
    #[error("the watch version expired; a new list is required")]
    Expired,
    /// A precondition failed (409), or the object to create already exists.
    #[error("conflict with another writer: {0}")]
    Conflict(String),
    /// Credentials are missing or insufficient (401, 403 by authorisation).
    #[error("the cluster denied access: {0}")]
    Forbidden(String),
    /// The cluster does not serve the kind.
    #[error("the cluster does not serve this kind: {0}")]
    UnknownKind(String),
    /// The object itself is rejected (400, 403 by admission or quota, 422).
    #[error("the cluster rejected the object: {0}")]
    Refused(String),
    /// Too many requests (429): retry after this long.
    #[error("rate limited by the cluster")]
    Throttled {
        /// How long the server asks the client to wait.
        after: Duration,
    },
    /// The server failed (5xx): the effect of a write is unknown.
    #[error("the cluster's API server failed: {0}")]
    Server(String),
}

impl CallError {
    /// Whether the cluster as a whole is unavailable: a reason to defer, not a failure.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unanswered(_) | Self::Server(_))
    }

    /// Why the cluster accepts no objects of the kind, if the error says that.
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

    /// A label for metrics, from a fixed set.
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
