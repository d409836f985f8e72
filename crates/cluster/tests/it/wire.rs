//! Fault injection between the client and a real API server: a layer below the client, where a
//! fault looks like a real one.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use trueup_cluster::kube::Kube;

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Answered with this code, and not executed.
    Answered(u16),
    /// The connection is refused.
    Unreachable,
    /// Executed, and answered with a gateway timeout.
    Lost,
    /// Executed, and the connection is reset before the response.
    Cut,
    /// The process crashes before the request.
    CrashBefore,
    /// The process crashes after the request, before it gets the response.
    CrashAfter,
}

impl Fault {
    /// All faults of a write.
    pub(crate) const ALL: [Self; 9] = [
        Self::Answered(409),
        Self::Answered(429),
        Self::Answered(500),
        Self::Answered(503),
        Self::Unreachable,
        Self::Lost,
        Self::Cut,
        Self::CrashBefore,
        Self::CrashAfter,
    ];
}

/// Which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The n-th write, from 1.
    Write(usize),
    /// The n-th watch that is opened, from 1.
    Watch(usize),
}

/// The wire. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Shared>);

struct Shared {
    inside: kube::Client,
    fault: Option<(At, Fault)>,
    state: Mutex<State>,
    crashed: Notify,
}

#[derive(Debug, Default)]
struct State {
    writes: Vec<String>,
    watches: usize,
    fired: bool,
    dead: bool,
}

/// The error of a broken connection.
#[derive(Debug)]
struct Broken(&'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Broken {}

type Carried = Result<Response<Body>, Box<dyn Error + Send + Sync>>;

impl Wire {
    pub(crate) fn new(kubeconfig: &Path, fault: Option<(At, Fault)>) -> Self {
        let (state, crashed) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { inside: client(kubeconfig), fault, state, crashed }))
    }

    /// The cluster at the other end.
    pub(crate) fn cluster(&self) -> Kube {
        let wire = self.clone();
        let carry = tower::service_fn(move |request| {
            let wire = wire.clone();
            async move { wire.carry(request).await }
        });
        Kube::new(kube::Client::new(carry, "default"))
    }

    /// The writes that were sent, in order.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.state().writes.clone()
    }

    pub(crate) fn fired(&self) -> bool {
        self.state().fired
    }

    /// Waits until the process should crash.
    pub(crate) async fn crashed(&self) {
        self.0.crashed.notified().await;
    }

    /// A new process starts.
    pub(crate) fn revive(&self) {
        self.state().dead = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process is dead, and the fault of this request.
    fn meet(&self, request: &Request<Body>) -> (bool, Option<Fault>) {
        let mut state = self.state();
        let at = if *request.method() != Method::GET {
            state.writes.push(format!("{} {}", request.method(), request.uri().path()));
            At::Write(state.writes.len())
        } else if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            state.watches += 1;
            At::Watch(state.watches)
        } else {
            return (state.dead, None);
        };
        let fault = self.0.fault.filter(|(planned, _)| *planned == at).map(|(_, fault)| fault);
        state.fired |= fault.is_some();
        (state.dead, fault)
    }

    async fn carry(&self, request: Request<Body>) -> Carried {
        let (is_dead, fault) = self.meet(&request);
        if is_dead {
            return std::future::pending().await;
        }
        let Some(fault) = fault else { return Ok(self.0.inside.send(request).await?) };
        match fault {
            Fault::Answered(code) => answer(code),
            // The text that the client uses for this.
            Fault::Unreachable => Err(Box::new(Broken("client error (Connect)"))),
            Fault::Lost => {
                self.0.inside.send(request).await?;
                answer(504)
            }
            Fault::Cut => {
                self.0.inside.send(request).await?;
                Err(Box::new(Broken("connection reset by peer")))
            }
            Fault::CrashBefore => self.die().await,
            Fault::CrashAfter => {
                self.0.inside.send(request).await?;
                self.die().await
            }
        }
    }

    async fn die(&self) -> Carried {
        self.state().dead = true;
        self.0.crashed.notify_one();
        std::future::pending().await
    }
}

fn answer(code: u16) -> Carried {
    let (reason, wait) = match code {
        409 => ("Conflict", None),
        410 => ("Expired", None),
        429 => ("TooManyRequests", Some("1")),
        503 => ("ServiceUnavailable", None),
        504 => ("Timeout", None),
        _ => ("InternalError", None),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": "injected fault", "code": code,
    });
    let mut response = Response::builder()
        .status(StatusCode::from_u16(code)?)
        .header("content-type", "application/json");
    if let Some(seconds) = wait {
        response = response.header("retry-after", seconds);
    }
    Ok(response.body(Body::from(status.to_string().into_bytes()))?)
}

/// A plain client without retries.
pub(crate) fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let mut config = kube::Config::try_from(kubeconfig).expect("a kubeconfig");
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}
