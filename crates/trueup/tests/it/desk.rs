//! The API over a database of its own, without a cluster: for what commands do with the event log.
//!
//! It can be stopped and started again at the same address, and its database can be written to
//! behind its back, which the real install keeps to itself.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_api::Client;
use trueup_api::client::Terms;
use trueup_api::project::ProjectManifest;
use trueup_control::{Metrics, Sealer};
use trueup_http::{AppState, Limits, NoLogs, ReadRepair, Streams, router, serve};
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_rules::envelope::Keyring;
use trueup_store::{DbClock, Signals};
use trueup_testkit::test_db::TestDb;

use crate::install::{Said, TRUEUP};

const TOKEN: &str = "the-owner";
/// Longer than any command here may take on a busy machine.
const COMMAND: Duration = Duration::from_secs(300);

pub(crate) struct Desk {
    db: TestDb,
    clock: Arc<dyn Clock>,
    address: SocketAddr,
    signals: Signals,
    stop: CancellationToken,
    server: JoinSet<()>,
    /// What commands connect to: who ends it breaks every connection wherever it is.
    line: JoinSet<()>,
    sealer: JoinSet<()>,
}

impl Desk {
    /// With the project `shop` in it.
    pub(crate) async fn new() -> Self {
        let db = TestDb::new().await;
        let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
        let now = clock.now();
        db.setup.ensure_token(TOKEN, TOKEN, Role::Owner, Some(db.org), now).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut desk = Self {
            db,
            clock,
            address,
            signals: Signals::default(),
            stop: CancellationToken::new(),
            server: JoinSet::new(),
            line: JoinSet::new(),
            sealer: JoinSet::new(),
        };
        let sealer = Sealer {
            worker: desk.db.worker.clone(),
            signals: desk.signals.clone(),
            clock: Arc::clone(&desk.clock),
            metrics: Metrics::register(&mut Registry::default()),
        };
        desk.sealer.spawn(sealer.run());
        desk.start().await;
        let manifest: ProjectManifest = serde_json::from_value(json!({})).unwrap();
        desk.client().project_put("shop", &manifest).await.unwrap();
        desk
    }

    /// Answers requests, at the same address as before.
    pub(crate) async fn start(&mut self) {
        let outside = TcpListener::bind(self.address).await.unwrap();
        self.address = outside.local_addr().unwrap();
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        self.line.spawn(forward(outside, listener.local_addr().unwrap()));
        self.stop = CancellationToken::new();
        let door = AppState {
            app: self.db.app.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            sealer: Keyring::new(&[7; 32]).sealer(),
            registry: Arc::new(Registry::default()),
            stop: self.stop.clone(),
            streams: Streams::default(),
            doubts: ReadRepair::default(),
            logs: Arc::new(NoLogs),
        };
        let stop = self.stop.clone();
        self.server.spawn(async move {
            serve(listener, router(door), Limits::default(), stop).await.unwrap();
        });
    }

    /// Stops answering; streams end cleanly.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.server.join_next().await {
            ended.unwrap();
        }
        self.line.shutdown().await;
    }

    /// Ends as a crash would: connections break wherever they are.
    pub(crate) async fn crash(&mut self) {
        self.line.shutdown().await;
        self.stop().await;
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), TOKEN).unwrap()
    }

    /// Declares one more generation of a service.
    pub(crate) async fn declare(&self, service: &str, image: &str) {
        let manifest = json!({"template": "web@1", "parameters": {"image": image}});
        let manifest = serde_json::from_value(manifest).unwrap();
        self.client().service_put("shop", service, &manifest, &Terms::PLAIN).await.unwrap();
    }

    /// Waits until every event is sealed.
    pub(crate) async fn sealed(&self) {
        self.db.seal().await;
        self.signals.sealed();
    }

    /// Changes the database as its owner.
    pub(crate) async fn tamper(&self, statement: &str) {
        let mut owner = PgConnection::connect(&self.db.urls.owner).await.unwrap();
        let statement = AssertSqlSafe(statement.to_owned());
        let done = sqlx::raw_sql(statement).execute(&mut owner).await.unwrap();
        assert!(done.rows_affected() > 0, "it should have changed something");
    }

    /// A command that asks here.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TRUEUP);
        let url = format!("http://{}", self.address);
        command.args(["--url", &url, "--token", TOKEN]).args(args).stdin(Stdio::null());
        command.kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn trueup(&self, args: &[&str]) -> Said {
        let output = tokio::time::timeout(COMMAND, self.command(args).output()).await;
        let output = output.unwrap_or_else(|_| panic!("trueup {args:?} did not end")).unwrap();
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Carries each connection to the server, until it is ended itself.
async fn forward(outside: TcpListener, server: SocketAddr) {
    let mut open = JoinSet::new();
    loop {
        let (mut outside, _) = outside.accept().await.unwrap();
        open.spawn(async move {
            let mut inside = TcpStream::connect(server).await?;
            copy_bidirectional(&mut outside, &mut inside).await
        });
        while open.try_join_next().is_some() {}
    }
}
