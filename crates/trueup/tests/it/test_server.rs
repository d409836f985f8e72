//! The API on its own test database, without a cluster.
//!
//! It can be stopped and restarted at the same address, and tests can tamper with its database.

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
use trueup_api::event::{EventFilter, EventPage};
use trueup_api::project::ProjectManifest;
use trueup_control::{Metrics, Sealer};
use trueup_http::{
    AppState, Dashboard, Limits, Listener, NoLogs, NoMail, NoProviders, Passwords, ReadRepair,
    SpendCache, Streams, TrustedProxies, router, serve,
};
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_rules::envelope::Keyring;
use trueup_rules::event::chain::{Content, Hash, link};
use trueup_rules::event::checkpoint::CheckpointKey;
use trueup_store::{DbClock, Signals};
use trueup_testkit::test_db::{CHEAP, TestDb};

use crate::install::{CommandOutput, TRUEUP};

const TOKEN: &str = "the-owner";
/// Longer than any command takes on a busy machine.
const COMMAND: Duration = Duration::from_secs(300);

pub(crate) struct TestServer {
    db: TestDb,
    clock: Arc<dyn Clock>,
    address: SocketAddr,
    signals: Signals,
    stop: CancellationToken,
    server: JoinSet<()>,
    /// The proxy that commands connect to; ending it breaks every connection.
    proxy: JoinSet<()>,
    sealer: JoinSet<()>,
}

impl TestServer {
    /// Starts the server with the project `shop`.
    pub(crate) async fn new() -> Self {
        let db = TestDb::new().await;
        let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
        let now = clock.now();
        db.setup.ensure_token(TOKEN, TOKEN, Role::Owner, Some(db.org), now).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self {
            db,
            clock,
            address,
            signals: Signals::default(),
            stop: CancellationToken::new(),
            server: JoinSet::new(),
            proxy: JoinSet::new(),
            sealer: JoinSet::new(),
        };
        let sealer = Sealer {
            worker: server.db.worker.clone(),
            signals: server.signals.clone(),
            clock: Arc::clone(&server.clock),
            metrics: Metrics::register(&mut Registry::default()),
        };
        server.sealer.spawn(sealer.run());
        server.start().await;
        let manifest: ProjectManifest = serde_json::from_value(json!({})).unwrap();
        server.client().project_put("shop", &manifest).await.unwrap();
        server
    }

    /// Serves requests, at the same address as before.
    pub(crate) async fn start(&mut self) {
        let outside = TcpListener::bind(self.address).await.unwrap();
        self.address = outside.local_addr().unwrap();
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        self.proxy.spawn(forward(outside, listener.local_addr().unwrap()));
        self.stop = CancellationToken::new();
        let state = AppState {
            app: self.db.app.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            encryptor: Keyring::new(&[7; 32]).encryptor(),
            registry: Arc::new(Registry::default()),
            stop: self.stop.clone(),
            streams: Streams::default(),
            read_repair: ReadRepair::default(),
            passwords: Passwords::new(CHEAP).unwrap(),
            mail: Arc::new(NoMail),
            logs: Arc::new(NoLogs),
            providers: Arc::new(NoProviders),
            billing: Arc::default(),
            spend: SpendCache::default(),
            dashboard: Dashboard::default(),
            checkpoints: Arc::new(CheckpointKey::new(&[7; 32])),
        };
        let stop = self.stop.clone();
        self.server.spawn(async move {
            serve(
                Listener::local(listener, TrustedProxies::default()),
                router(state),
                Limits::default(),
                stop,
            )
            .await
            .unwrap();
        });
    }

    /// Shuts down gracefully; streams end cleanly.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.server.join_next().await {
            ended.unwrap();
        }
        self.proxy.shutdown().await;
    }

    /// Ends like a crash: connections break.
    pub(crate) async fn crash(&mut self) {
        self.proxy.shutdown().await;
        self.stop().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The token of the org's owner.
    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), TOKEN).unwrap()
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

    /// Runs a statement as the database owner.
    pub(crate) async fn tamper(&self, statement: &str) {
        let mut owner = PgConnection::connect(&self.db.urls.owner).await.unwrap();
        let statement = AssertSqlSafe(statement.to_owned());
        let done = sqlx::raw_sql(statement).execute(&mut owner).await.unwrap();
        assert!(done.rows_affected() > 0, "the statement should change a row");
    }

    /// A command that uses this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TRUEUP);
        let url = format!("http://{}", self.address);
        command.args(["--url", &url, "--token", TOKEN]).args(args).stdin(Stdio::null());
        command.kill_on_drop(true);
        command
    }

    /// Changes an event and computes the whole chain again, as whoever can write the database may.
    pub(crate) async fn rewrite_log(&self) {
        let event = "(select event_id from event_seals where position = 4)";
        let change = format!(
            "update events set body = body || '{{\"action\": \"pause\"}}' where id = {event}"
        );
        self.tamper(&change).await;
        let (filter, page) = (EventFilter::default(), EventPage::After(None));
        let events = self.client().event_list(&filter, &page, Some(1000)).await.unwrap().items;
        let mut head = Hash::START;
        for event in events {
            let position = event.sequence.parse().unwrap();
            let content = Content {
                id: &event.id,
                source: &event.source,
                kind: &event.kind,
                subject: &event.subject,
                generation: event.generation,
                time: event.time,
                trace: event.traceid.as_deref(),
                cause: event.causeid.as_deref(),
                data: &event.data,
            };
            head = link(&head, self.db.org, position, &content);
            let org = self.db.org.uuid();
            self.tamper(&format!(
                "update event_seals set hash = '\\x{head}' where position = {position} and org_id = '{org}'"
            ))
            .await;
        }
    }

    /// Runs a command.
    pub(crate) async fn trueup(&self, args: &[&str]) -> CommandOutput {
        let output = tokio::time::timeout(COMMAND, self.command(args).output()).await;
        let output = output.unwrap_or_else(|_| panic!("trueup {args:?} did not end")).unwrap();
        CommandOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Forwards each connection to the server.
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
