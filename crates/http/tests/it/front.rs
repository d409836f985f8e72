//! The fixture of each test: a router with two orgs, and a token for every role.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trueup_http::{
    AppState, Dashboard, NoLogs, NoMail, NoProviders, Passwords, ReadRepair, SpendCache, Streams,
    router,
};
use trueup_model::principal::Role;
use trueup_model::{Clock, OrgId};
use trueup_rules::envelope::Keyring;
use trueup_rules::event::checkpoint::CheckpointKey;
use trueup_store::{App, Signals};
use trueup_testkit::manual_clock::ManualClock;
use trueup_testkit::test_db::{CHEAP, PASSWORD, TestDb};

use crate::documented;

pub(crate) const OWNER: &str = "the-owner";
pub(crate) const DEVELOPER: &str = "the-developer";
pub(crate) const VIEWER: &str = "the-viewer";
pub(crate) const BILLING: &str = "the-bookkeeper";
pub(crate) const ADMIN: &str = "the-admin";
/// Somebody with roles in single projects alone, and here in none.
pub(crate) const MEMBER: &str = "the-member";
pub(crate) const AUDITOR: &str = "the-auditor";
pub(crate) const OPERATOR: &str = "the-operator";
/// The owner of another org.
pub(crate) const STRANGER: &str = "the-stranger";
/// The cookie of a session on plain loopback, without a port in the request.
pub(crate) const COOKIE: &str = "trueup-80";
/// The service that most tests use.
pub(crate) const WEB: &str = "/v1/projects/shop/services/web";
/// The longest a test waits for something that should come at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Front {
    pub(crate) db: TestDb,
    pub(crate) clock: ManualClock,
    pub(crate) state: AppState,
    pub(crate) owner: PgPool,
    pub(crate) other_org: OrgId,
    /// Built with the first request: building all routes takes longer than most requests.
    routes: OnceLock<Router>,
}

/// The state of a router over this database.
pub(crate) fn app_state(app: App, clock: &ManualClock) -> AppState {
    AppState {
        app,
        signals: Signals::default(),
        clock: Arc::new(clock.clone()),
        encryptor: Keyring::new(&[7; 32]).encryptor(),
        registry: Arc::new(Registry::default()),
        stop: CancellationToken::new(),
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
    }
}

impl Front {
    /// With the project `shop` in it.
    pub(crate) async fn new() -> Self {
        let (db, clock) = (TestDb::new().await, ManualClock::new());
        let (setup, now) = (&db.setup, clock.now());
        let other_org = setup.ensure_org("other", now).await.unwrap();
        let tokens = [
            (OWNER, Role::Owner, Some(db.org)),
            (DEVELOPER, Role::Developer, Some(db.org)),
            (VIEWER, Role::Viewer, Some(db.org)),
            (BILLING, Role::Billing, Some(db.org)),
            (ADMIN, Role::Admin, Some(db.org)),
            (MEMBER, Role::Member, Some(db.org)),
            (OPERATOR, Role::Operator, None),
            (AUDITOR, Role::Auditor, None),
            (STRANGER, Role::Owner, Some(other_org)),
        ];
        for (token, role, org) in tokens {
            setup.ensure_token(token, token, role, org, now).await.unwrap();
        }
        let owner = PgPoolOptions::new().max_connections(1).connect(&db.urls.owner).await.unwrap();
        let (state, routes) = (app_state(db.app.clone(), &clock), OnceLock::new());
        let front = Self { state, db, clock, owner, other_org, routes };
        let made = front.put("/v1/projects/shop").send().await;
        assert_eq!(made.status, StatusCode::ACCEPTED);
        front
    }

    /// With the service `web` in it.
    pub(crate) async fn with_web() -> Self {
        let front = Self::new().await;
        front.declare("nginx:1").await;
        front
    }

    pub(crate) async fn declare(&self, image: &str) -> Reply {
        let reply = self.put(WEB).json(&web(image)).send().await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text());
        reply
    }

    pub(crate) fn get(&self, path: &str) -> TestRequest {
        self.request(Method::GET, path)
    }

    pub(crate) fn put(&self, path: &str) -> TestRequest {
        self.request(Method::PUT, path)
    }

    pub(crate) fn post(&self, path: &str) -> TestRequest {
        self.request(Method::POST, path)
    }

    pub(crate) fn patch(&self, path: &str) -> TestRequest {
        self.request(Method::PATCH, path)
    }

    pub(crate) fn delete(&self, path: &str) -> TestRequest {
        self.request(Method::DELETE, path)
    }

    /// A request of the org's owner, unless it says otherwise.
    pub(crate) fn request(&self, method: Method, path: &str) -> TestRequest {
        let routes = self.routes.get_or_init(|| router(self.state.clone()));
        TestRequest::new(routes.clone(), method, path).token(OWNER)
    }

    /// Changes the state; later requests use a new router.
    pub(crate) fn rebuild(&mut self, change: impl FnOnce(&mut AppState)) {
        change(&mut self.state);
        self.routes = OnceLock::new();
    }

    /// Seals all events and sends the signal.
    pub(crate) async fn seal(&self) {
        self.db.seal().await;
        self.state.signals.sealed();
    }

    /// One query to every table at once, with `{table}` for its name.
    async fn of_each_table<T>(&self, question: &str, org: Option<OrgId>) -> BTreeMap<String, T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        let tables = "select tablename::text from pg_tables where schemaname = 'public'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&self.owner).await.unwrap();
        let select = |table: &String| {
            let answer = question.replace("{table}", table);
            format!("select '{table}', {answer}")
        };
        let selects: Vec<String> = tables.iter().map(select).collect();
        let rows: Vec<(String, T)> = sqlx::query_as(AssertSqlSafe(selects.join(" union all ")))
            .bind(org.map(|org| org.uuid().to_string()))
            .fetch_all(&self.owner)
            .await
            .unwrap();
        rows.into_iter().collect()
    }

    /// How many rows each table has.
    pub(crate) async fn rows(&self) -> BTreeMap<String, i64> {
        let count = "count(*) from {table} where $1::text is null";
        self.of_each_table(count, None).await
    }

    /// All stored rows except when a token was last used; optionally without the rows of one org.
    pub(crate) async fn stored(&self, without: Option<OrgId>) -> BTreeMap<String, String> {
        let content = "coalesce(string_agg((to_jsonb(t) - 'used_at')::text, chr(10)
                                           order by to_jsonb(t)::text), '')
             from {table} t
             where ($1::text is null or to_jsonb(t)->>'org_id' is distinct from $1)";
        self.of_each_table(content, without).await
    }

    /// Marks every service that is being deleted as deleted, as an executor would.
    pub(crate) async fn end_services(&self) {
        let gone = "update services set deleted_at = accepted_at where desired = 'deleted'";
        sqlx::raw_sql(gone).execute(&self.owner).await.unwrap();
    }

    /// Creates a token as the org's owner and returns its secret.
    pub(crate) async fn create_token(&self, body: &Value) -> String {
        let reply = self.post("/v1/tokens").json(body).send().await;
        assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text());
        reply.json()["secret"].as_str().unwrap().to_owned()
    }

    /// Signs a user in and returns the secret of the session.
    pub(crate) async fn sign_in(&self, email: &str) -> String {
        let body = json!({"email": email, "password": PASSWORD});
        let reply = self.post("/v1/session").without(header::AUTHORIZATION).json(&body);
        let reply = reply.send().await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        reply.session()
    }

    /// Deletes a token from the database.
    pub(crate) async fn revoke(&self, token: &str) {
        let gone = sqlx::query("delete from tokens where hash = $1")
            .bind(trueup_store::token_hash(token))
            .execute(&self.owner)
            .await
            .unwrap();
        assert_eq!(gone.rows_affected(), 1);
    }
}

/// The manifest of a web service.
pub(crate) fn web(image: &str) -> Value {
    json!({"template": "web@1", "parameters": {"image": image}})
}

/// A builder for a request.
pub(crate) struct TestRequest {
    router: Router,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl TestRequest {
    pub(crate) fn new(router: Router, method: Method, path: &str) -> Self {
        let (path, headers) = (path.to_owned(), HeaderMap::new());
        Self { router, method, path, headers, body: Vec::new() }
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.without(header::AUTHORIZATION).header("authorization", &format!("Bearer {token}"))
    }

    /// With the cookie of a session instead of a token.
    pub(crate) fn cookie(self, secret: &str) -> Self {
        let cookie = format!("{COOKIE}={secret}");
        self.without(header::AUTHORIZATION).without(header::COOKIE).header("cookie", &cookie)
    }

    /// As a script of our own pages sends it.
    pub(crate) fn on_our_page(self) -> Self {
        self.header("x-trueup-csrf", "1").header("sec-fetch-site", "same-origin")
    }

    pub(crate) fn without(mut self, name: HeaderName) -> Self {
        self.headers.remove(name);
        self
    }

    /// Adds a header; the same one may be added twice.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request; the body of the response is not read yet.
    pub(crate) async fn open(self) -> (StatusCode, HeaderMap, Body) {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        *request.headers_mut().unwrap() = self.headers;
        let request = request.body(Body::from(self.body)).unwrap();
        let (parts, body) = self.router.oneshot(request).await.unwrap().into_parts();
        (parts.status, parts.headers, body)
    }

    /// Sends the request and reads the whole response; of an event stream only the headers.
    pub(crate) async fn send(self) -> Reply {
        let (method, path) = (self.method.clone(), self.path.clone());
        let (status, headers, body) = self.open().await;
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
            return Reply { status, headers, body: Bytes::new() };
        }
        let body = body.collect().await.unwrap().to_bytes();
        let reply = Reply { status, headers, body };
        documented::check(&method, &path, &reply);
        reply
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The secret of the session that it sets.
    pub(crate) fn session(&self) -> String {
        let cookie = self.header("set-cookie").expect("a sign-in should set a cookie");
        let value = cookie.strip_prefix(COOKIE).unwrap().strip_prefix('=').unwrap();
        value.split(';').next().unwrap().to_owned()
    }

    /// The text without the trace id, which differs in each response.
    pub(crate) fn masked(&self) -> String {
        let trace = self.header("trueup-trace").expect("each response should have a trace");
        self.text().replace(trace, "[trace]")
    }

    /// Checks that this is a problem with this code, and nothing else.
    pub(crate) fn must_be(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["code"], code);
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("/docs/errors/{code}"));
        assert_eq!(problem["trace"].as_str(), self.header("trueup-trace"));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        problem
    }
}
