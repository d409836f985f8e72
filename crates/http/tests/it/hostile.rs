//! Hostile callers: every operation with malicious texts, bodies and floods.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode};
use futures::stream;
use serde_json::{Value, json};
use sqlx::Connection;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::ServiceExt;
use trueup_http::router;

use crate::front::{Front, OPERATOR, OWNER, PATIENCE, STRANGER, TestRequest, WEB};
use crate::recipe::{Operation, all_operations, operations, stage};

/// Texts that break careless code.
fn nasty() -> Vec<String> {
    let plain = [
        "'",
        "\"",
        "' or true --",
        "'; drop table services; --",
        "--",
        "%",
        "_",
        "%%%",
        "\\",
        "\0",
        "a\0b",
        "$1",
        "{}",
        "{{7*7}}",
        "../..",
        "..",
        ".",
        "/",
        "a/b",
        "\n",
        "\r\n",
        "\u{202e}",
        "\u{feff}",
        "ü",
        "💥",
        "-1",
        "0",
        "9223372036854775807",
        "9223372036854775808",
        "1e309",
        "NaN",
        "null",
        "true",
        "[]",
        "",
        " ",
        "00000000-0000-0000-0000-000000000000",
        "org_00000000000000000000000000",
    ];
    let long = ["a".repeat(5000), "%".repeat(2000), "'".repeat(2000)];
    plain.into_iter().map(str::to_owned).chain(long).collect()
}

/// Operations that are tested with every text: together they have names, ids, hosts, numbers and
/// positions in their URLs, and texts, maps, lists and whole documents in their bodies.
const REPRESENTATIVE: [&str; 5] =
    ["service_list", "service_put", "domain_put", "token_create", "template_publish"];

/// The texts for an operation. All operations share a few parsing functions, so most are tested
/// only with SQL, a text that Postgres cannot store, and one that is too long.
fn texts_for(operation: &Operation) -> Vec<String> {
    if REPRESENTATIVE.contains(&operation.recipe.operation) {
        return nasty();
    }
    vec!["'; drop table services; --".to_owned(), "a\0b".to_owned(), "%".repeat(2000)]
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn caller(operation: &Operation) -> &'static str {
    operation.recipe.caller()
}

async fn survives(request: TestRequest, context: &str) {
    let reply = request.send().await;
    let status = reply.status.as_u16();
    assert!(status < 500, "{context}: {status} {}", reply.text());
    if status >= 400 {
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{context}");
    }
}

#[test]
fn every_representative_operation_exists() {
    let all = all_operations();
    for name in REPRESENTATIVE {
        assert!(all.iter().any(|operation| operation.recipe.operation == name), "{name}");
    }
}

/// S47: every text of every URL, including texts that look like SQL.
#[tokio::test]
async fn s47_hostile_text_in_any_url_causes_no_internal_error() {
    let (front, things) = stage().await;
    for operation in all_operations() {
        let token = caller(&operation);
        for text in texts_for(&operation) {
            let context = format!("{} {} {text:?}", operation.method, operation.path);
            for wrong in things.iter().map(|thing| thing.placeholder) {
                if operation.path.contains(&format!("{{{wrong}}}")) {
                    let path = operation.at(&things, |thing| {
                        if thing.placeholder == wrong { encoded(&text) } else { thing.name.clone() }
                    });
                    survives(operation.request(&front, token, &path), &context).await;
                }
            }
            for query in &operation.queries {
                let path = format!("{}?{query}={}", operation.address(&things), encoded(&text));
                survives(operation.request(&front, token, &path), &context).await;
            }
        }
    }
    assert_eq!(front.get(WEB).send().await.status, StatusCode::OK);
}

/// S47: every text of every body and header.
#[tokio::test]
async fn s47_hostile_text_in_any_body_or_header_causes_no_internal_error() {
    let (front, things) = stage().await;
    let headers = [
        "if-match",
        "if-none-match",
        "last-event-id",
        "trueup-org",
        "traceparent",
        "idempotency-key",
    ];
    for operation in all_operations() {
        let (token, address) = (caller(&operation), operation.address(&things));
        for text in texts_for(&operation) {
            let context = format!("{} {address} {text:?}", operation.method);
            if let Some(body) = operation.recipe.body {
                for pointer in texts(&body(), String::new()) {
                    let mut body = body();
                    *body.pointer_mut(&pointer).unwrap() = json!(text);
                    survives(operation.request(&front, token, &address).json(&body), &context)
                        .await;
                }
            }
            if text.bytes().all(|byte| byte >= b' ') {
                for name in headers {
                    let request =
                        operation.request(&front, token, &address).without(name.parse().unwrap());
                    survives(request.header(name, &text), &context).await;
                }
            }
        }
    }
}

/// The JSON pointers of all texts in a value.
fn texts(value: &Value, at: String) -> Vec<String> {
    match value {
        Value::String(_) => vec![at],
        Value::Array(all) => (0_usize..)
            .zip(all)
            .flat_map(|(index, one)| texts(one, format!("{at}/{index}")))
            .collect(),
        Value::Object(all) => {
            all.iter().flat_map(|(key, one)| texts(one, format!("{at}/{key}"))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// S11: fields that only the server sets cannot be sent.
#[tokio::test]
async fn s11_fields_set_by_the_server_are_rejected_by_name() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    let own = [
        "owner",
        "org",
        "org_id",
        "tenant_id",
        "role",
        "generation",
        "status",
        "phase",
        "uid",
        "id",
        "price",
        "quota",
        "node",
        "created_at",
        "desired",
        "namespace",
        "cluster",
        "hash",
        "secret",
        "principal",
    ];
    let mut tried = 0;
    for operation in all_operations() {
        let Some(body) = operation.recipe.body else { continue };
        for field in own
            .iter()
            .filter(|field| !operation.fields.iter().flatten().any(|known| known == *field))
        {
            let mut body = body();
            body.as_object_mut().unwrap().insert((*field).to_owned(), json!("x"));
            let request =
                operation.request(&front, caller(&operation), &operation.address(&things));
            let problem = request.json(&body).send().await.must_be(400, "TU1101");
            let said = problem["detail"].as_str().unwrap();
            assert!(said.contains(&format!("`{field}`")), "{} {said}", operation.path);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    assert_eq!(front.stored(None).await, before);
}

/// S50: bodies that are too large, too deep or endless.
#[tokio::test]
async fn s50_large_deep_or_endless_bodies_are_rejected() {
    let front = Front::with_web().await;
    let huge = vec![b' '; 10 * 1024 * 1024];
    let many: String = (0..1_000_000).map(|key| format!("\"{key}\":1,")).collect();
    let put = |body: Vec<u8>| front.put(WEB).body(body).send();
    put(huge.clone()).await.must_be(413, "TU1102");
    put(format!("{{{many}\"x\":1}}").into_bytes()).await.must_be(413, "TU1102");
    for deep in ["[", "{\"a\":"] {
        let deep = format!("{{\"parameters\":{}", deep.repeat(200_000 / deep.len()));
        put(deep.into_bytes()).await.must_be(400, "TU1101");
    }
    let keys: String = (0..20_000).map(|key| format!("\"{key}\":1,")).collect();
    let keys = format!("{{\"template\":\"web@1\",\"parameters\":{{{keys}\"x\":1}}}}");
    let reply = put(keys.into_bytes()).await;
    assert!(reply.status.is_client_error(), "{}", reply.status);
    // An operation without a body does not read one.
    for method in [Method::GET, Method::DELETE] {
        front
            .request(method, WEB)
            .header("content-length", "10485760")
            .body(huge.clone())
            .send()
            .await
            .must_be(413, "TU1102");
    }
    // Without a Content-Length, the received bytes are counted.
    let endless =
        stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 8192])));
    let request = Request::put(WEB)
        .header("authorization", format!("Bearer {OWNER}"))
        .body(Body::from_stream(endless))
        .unwrap();
    let answer = tokio::time::timeout(PATIENCE, router(front.state.clone()).oneshot(request)).await;
    assert_eq!(answer.unwrap().unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}

/// S50: a body that stalls.
#[tokio::test]
async fn s50_stalled_body_times_out() {
    let front = Front::with_web().await;
    let waiting = Arc::new(Notify::new());
    let asked_for = Arc::clone(&waiting);
    let never = stream::poll_fn(move |_| {
        asked_for.notify_one();
        Poll::<Option<Result<Bytes, std::io::Error>>>::Pending
    });
    let request = Request::put(WEB)
        .header("authorization", format!("Bearer {OWNER}"))
        .body(Body::from_stream(never))
        .unwrap();
    let mut asked = JoinSet::new();
    asked.spawn(router(front.state.clone()).oneshot(request));
    waiting.notified().await;
    front.clock.advance(Duration::from_secs(5));
    let answer = tokio::time::timeout(PATIENCE, asked.join_next()).await;
    let answer = answer.expect("there should be a response").unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

/// S50: a flood from one org is queued, then rejected; other orgs are not affected.
#[tokio::test]
async fn s50_flood_from_one_org_does_not_block_another() {
    let front = Front::with_web().await;
    let router = router(front.state.clone());
    let request = |path: &str, token: &str| {
        let request = TestRequest::new(router.clone(), Method::GET, path).token(token);
        async move { request.send().await }
    };
    assert_eq!(request("/v1/quota", OWNER).await.status, 200, "this token is known from now on");
    // Requests that read the quota wait for this lock; every credential reads the projects of its roles.
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    sqlx::raw_sql("begin; lock table quotas in access exclusive mode")
        .execute(&mut lock)
        .await
        .unwrap();
    let mut flood = JoinSet::new();
    for _ in 0..400 {
        flood.spawn(request("/v1/quota", OWNER));
    }
    let refused =
        tokio::time::timeout(PATIENCE, flood.join_next()).await.unwrap().unwrap().unwrap();
    refused.must_be(429, "TU1007");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let other = tokio::time::timeout(PATIENCE, request("/v1/events", STRANGER)).await;
    assert_eq!(other.expect("another org should be answered").status, 200);
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    let (mut good, mut busy) = (0, 1);
    while let Some(reply) = flood.join_next().await {
        match reply.unwrap().status.as_u16() {
            200 => good += 1,
            429 => busy += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((good, busy), (264, 136), "8 in flight and 256 queued");
    // After the flood the org is served again.
    assert_eq!(request("/v1/quota", OWNER).await.status, 200);
}

/// S50: a flood of invalid tokens takes a few connections and never the last one.
#[tokio::test]
async fn s50_flood_of_invalid_tokens_leaves_connections_for_valid_ones() {
    let front = Front::with_web().await;
    let router = router(front.state.clone());
    let request = |token: &str| {
        let request = TestRequest::new(router.clone(), Method::GET, "/v1/projects").token(token);
        async move { request.send().await }
    };
    assert_eq!(request(OWNER).await.status, 200, "this token is known from now on");
    // Every lookup of a token waits for this lock.
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let begin = "begin; lock table tokens in access exclusive mode";
    sqlx::raw_sql(begin).execute(&mut lock).await.unwrap();
    let mut flood = JoinSet::new();
    for number in 0..400 {
        flood.spawn(request(&format!("unknown-{number}")));
    }
    let refused =
        tokio::time::timeout(PATIENCE, flood.join_next()).await.unwrap().unwrap().unwrap();
    refused.must_be(429, "TU1007");
    // Without a limit for unknown tokens they would hold every connection.
    front.state.app.ping().await.expect("a connection should be free");
    let mut known = JoinSet::new();
    known.spawn(request(OWNER));
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    assert_eq!(
        tokio::time::timeout(PATIENCE, known.join_next()).await.unwrap().unwrap().unwrap().status,
        200
    );
    let (mut rejected, mut busy) = (0, 1);
    while let Some(reply) = flood.join_next().await {
        match reply.unwrap().status.as_u16() {
            401 => rejected += 1,
            429 => busy += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(rejected + busy, 400);
    assert!(rejected >= 256, "{rejected}");
}

/// S40: a canary for every secret in a request or response.
#[tokio::test]
async fn s40_secrets_are_in_no_log_no_event_no_error_and_no_metric() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (front, things) = stage().await;
    let secret = front.create_token(&json!({"name": "ci", "role": "owner"})).await;
    let made = front.post("/v1/orgs").token(OPERATOR).json(&json!({"name": "fresh"})).send().await;
    let fresh = made.json()["owner"]["secret"].as_str().unwrap().to_owned();
    let mut responses = String::new();
    for token in [&secret, &fresh] {
        for operation in operations() {
            let reply = operation.request(&front, token, &operation.address(&things)).send().await;
            if operation.recipe.operation != "token_create" {
                responses += reply.text();
            }
            let address = operation.address(&things);
            let wrong = operation.request(&front, token, &address).body("{nonsense");
            responses += wrong.send().await.text();
        }
        let addresses = [
            format!("/{token}"),
            format!("/v1/services?token={token}"),
            format!("/v1/tokens/{token}"),
        ];
        for address in addresses {
            responses += front.get(&address).send().await.text();
        }
        responses += front.get(WEB).token(&format!("{token}x")).send().await.text();
        let name = json!({"name": token, "role": "viewer"});
        responses += front.post("/v1/tokens").json(&name).send().await.text();
    }
    front.seal().await;
    responses += front.get("/v1/events").send().await.text();
    responses += front.get("/metrics").token(OPERATOR).send().await.text();
    responses += &format!("{:?} {:?}", front.stored(None).await, front.state);
    let log = log.text();
    assert!(log.contains("request") && log.len() > 10_000, "the log should be full");
    for (what, text) in [("a response", responses), ("the log", log)] {
        for secret in [&secret, &fresh] {
            assert!(!text.contains(&secret[30..]), "{what} contains a token");
        }
    }
}

/// Everything that was logged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
