//! The [`Cluster`] client for a real API server.
//!
//! Requests are plain HTTP with JSON values: typed objects would be parsed and serialised twice for
//! nothing, because planning compares JSON. The client's own retries are off: a hidden retry would
//! turn "may have taken effect" into "took effect twice". The client uses HTTP/1.1 with a
//! connection pool: each of some thirty small writes in flight has its own connection, and none
//! waits behind a long list response, as streams of one HTTP/2 connection would.

mod address;
mod answer;
mod call;
mod contents;
mod growth;
mod list;
mod log;
mod provision;
pub mod rbac;
#[cfg(test)]
mod stub;
mod watch;
mod writer_policy;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::BoxStream;
use http::{Method, StatusCode};
use kube::config::{Kubeconfig, KubeconfigError};
use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;
use trueup_rules::render::names;

use crate::verbs::{Answer, CallError, Cluster, Draft, List, Scope, WatchEvent};
use address::Address;
use answer::{call_error, no_such_object};
pub use call::DEADLINE;
use call::{Content, Reply};
use list::Detail;

/// The field manager of everything Trueup writes.
const MANAGER: &str = "trueup";
/// Objects in one page of a list.
const PAGE: &str = "500";

/// A kubeconfig that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file is missing or not a kubeconfig.
    #[error("invalid kubeconfig: {0}")]
    Config(#[from] KubeconfigError),
    /// Its certificates, keys or proxy cannot be used.
    #[error("cannot create a client from the kubeconfig: {0}")]
    Client(#[from] kube::Error),
    /// The cluster issued no token for one of Trueup's service accounts.
    #[error("the cluster issued no token for Trueup's accounts; check that it serves TokenRequest")]
    NoToken,
    /// The client was created outside an async runtime.
    #[error("a cluster client can only be created inside an async runtime")]
    NoRuntime,
}

/// One real cluster.
#[derive(Clone)]
pub struct Kube {
    /// Reads single objects, and writes.
    client: kube::Client,
    /// Lists and watches.
    watcher: kube::Client,
    limits: Limits,
}

/// Timeouts.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// For the response to a call.
    deadline: Duration,
    /// For the next event of a watch.
    silence: Duration,
}

const LIMITS: Limits = Limits { deadline: DEADLINE, silence: watch::SILENCE };

impl fmt::Debug for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kube").finish_non_exhaustive()
    }
}

impl Kube {
    /// Client for this kubeconfig: with the contexts `trueup-watcher` and `trueup-writer` if it has
    /// both, else with the current context for everything. Sends nothing yet.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, ConnectError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ConnectError::NoRuntime);
        }
        let kubeconfig = Kubeconfig::read_from(path)?;
        let has = |name: &str| kubeconfig.contexts.iter().any(|context| context.name == name);
        if !(has(names::WATCHER) && has(names::WRITER)) {
            return Ok(Self::new(client_of(kubeconfig)?));
        }
        let of = |name: &str| {
            let current_context = Some(name.to_owned());
            client_of(Kubeconfig { current_context, ..kubeconfig.clone() })
        };
        Ok(Self::split(of(names::WATCHER)?, of(names::WRITER)?))
    }

    /// Combines two clients: one lists and watches, the other reads single objects and writes.
    #[must_use]
    pub const fn split(watcher: kube::Client, writer: kube::Client) -> Self {
        Self { client: writer, watcher, limits: LIMITS }
    }

    /// Uses the caller's client, whose retries should be off, for everything.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self::split(client.clone(), client)
    }

    /// The cluster's identity: the uid of its `kube-system` namespace, which is unique and as old
    /// as the cluster.
    ///
    /// # Errors
    /// The cluster is unreachable, or has just started and has no `kube-system` namespace yet.
    pub async fn identity(&self) -> Result<String, CallError> {
        let oldest = ResourceKey::new(Kind::Namespace, "", "kube-system");
        let found = self.get_one(&oldest).await?;
        let uid = found.as_ref().and_then(|object| object["metadata"]["uid"].as_str());
        uid.map(str::to_owned)
            .ok_or_else(|| CallError::Unreachable("it has no kube-system namespace yet".to_owned()))
    }

    async fn get_one(&self, key: &ResourceKey) -> Result<Option<Value>, CallError> {
        let reply = self.send(Method::GET, Address::one(key)?, Content::Nothing).await?;
        if reply.status == StatusCode::NOT_FOUND && no_such_object(&reply.failure(), key) {
            return Ok(None);
        }
        match object_of(reply, key.kind) {
            // Without the project's namespace there is no RoleBinding to read its secrets, and no
            // secrets.
            Err(CallError::Forbidden(_))
                if Kind::READ.contains(&key.kind) && self.has_no_namespace(key).await? =>
            {
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    async fn has_no_namespace(&self, key: &ResourceKey) -> Result<bool, CallError> {
        let namespace = ResourceKey::new(Kind::Namespace, "", &key.namespace);
        let reply = self.send(Method::GET, Address::one(&namespace)?, Content::Nothing).await?;
        Ok(reply.status == StatusCode::NOT_FOUND && no_such_object(&reply.failure(), &namespace))
    }

    async fn delete_one(
        &self,
        key: &ResourceKey,
        uid: &str,
        version: &str,
    ) -> Result<(), CallError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": uid, "resourceVersion": version },
            "propagationPolicy": "Background",
        });
        let reply = self.send(Method::DELETE, Address::one(key)?, Content::Json(&options)).await?;
        if reply.status.is_success() {
            return Ok(());
        }
        let failure = reply.failure();
        if reply.status == StatusCode::NOT_FOUND && no_such_object(&failure, key) {
            return Ok(());
        }
        Err(call_error(&failure, key.kind, reply.retry_after))
    }

    async fn write(
        &self,
        key: &ResourceKey,
        address: Address,
        content: Content<'_>,
    ) -> Result<Value, CallError> {
        let reply =
            self.send(Method::PATCH, address.with("fieldManager", MANAGER), content).await?;
        match object_of(reply, key.kind) {
            Err(CallError::Refused(message)) if growth::is_refused(key.kind, &message) => {
                Err(self.growth_refused(key).await)
            }
            answer => answer,
        }
    }
}

/// A client for the current context. Its own retries are off.
fn client_of(kubeconfig: Kubeconfig) -> Result<kube::Client, ConnectError> {
    let mut config = kube::Config::try_from(kubeconfig)?;
    config.default_retry = false;
    config.connect_timeout = Some(call::CONNECT_LIMIT);
    Ok(kube::Client::try_from(config)?)
}

/// The address for a forced server-side apply.
fn apply_address(key: &ResourceKey) -> Result<Address, CallError> {
    Ok(Address::one(key)?.with("force", "true").with("fieldValidation", "Strict"))
}

/// The object in a response.
fn object_of(reply: Reply, kind: Kind) -> Result<Value, CallError> {
    let mut object = reply.into_object(kind)?;
    answer::tidy(&mut object, kind);
    Ok(object)
}

impl Cluster for Kube {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.get_one(key).boxed()
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.list_all(kind, Address::all(kind).select(kind, scope), Detail::Whole).boxed()
    }

    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        let ours = Address::all(kind).select(kind, Scope::Ours);
        self.list_all(kind, ours, Detail::Versions).boxed()
    }

    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        async move {
            let ours = Address::in_namespace(kind, namespace)?.select(kind, Scope::Ours);
            self.list_all(kind, ours, Detail::Versions).await
        }
        .boxed()
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        watch::stream(self.watcher.clone(), self.limits, kind, &from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        async move { self.write(key, apply_address(key)?, Content::Apply(object)).await }.boxed()
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        async move { self.write(key, Address::one(key)?, Content::MergePatch(patch)).await }.boxed()
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.delete_one(key, uid, version).boxed()
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        async move {
            let (address, content) = match draft {
                Draft::Apply(object) => (apply_address(key)?, Content::Apply(object)),
                Draft::Patch(patch) => (Address::one(key)?, Content::MergePatch(patch)),
            };
            self.write(key, address.with("dryRun", "All"), content).await
        }
        .boxed()
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        self.list_warnings(key, uid).boxed()
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        self.survey(namespace).boxed()
    }
}
