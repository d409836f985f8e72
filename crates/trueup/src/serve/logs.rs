//! The live-log port: lets the API, which does not depend on `cluster`, read pod logs.

use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use trueup_cluster::kube::Kube;
use trueup_http::{Lines, LiveLogs, LogSource};

/// Reads logs from the connected cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterLogs {
    connected: RwLock<Option<Arc<Kube>>>,
}

impl ClusterLogs {
    /// Sets the cluster to read from.
    pub(super) fn connect(&self, kube: Arc<Kube>) {
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(kube);
    }
}

impl LiveLogs for ClusterLogs {
    fn read(&self, of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        let kube = self.connected.read().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let kube = kube.ok_or("the cluster is not connected yet")?;
            let lines = kube.log(&of.namespace, &of.pod, of.tail, of.follow).await;
            let lines = lines.map_err(|error| error.to_string())?;
            Ok(lines.map(|line| line.map_err(|error| error.to_string())).boxed())
        }
        .boxed()
    }
}
