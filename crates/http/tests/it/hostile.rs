//! Callers who mean harm: every operation with texts, bodies and floods that nobody honest sends.

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
use trueup_model::principal::Role;

use crate::front::{Ask, Front, OPERATOR, OWNER, PATIENCE, STRANGER, WEB};
use crate::recipe::{Operation, operations, stage};

/// Texts that break what is not careful.
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

/// Operations that are sent every text: together they have names, ids, hosts, numbers and positions in
/// their addresses, and texts, maps, lists and whole documents in their bodies.
const REPRESENTATIVE: [&str; 5] =
    ["service_list", "service_put", "domain_put", "token_create", "template_publish"];

/// What an operation is sent. All of them read their texts by the same few functions, so most are sent
/// only what is SQL, what Postgres cannot store, and what is too long.
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
    if operation.recipe.least == Role::Operator { OPERATOR } else { OWNER }
}

async fn survives(ask: Ask, told: &str) {
    let reply = ask.send().await;
    let status = reply.status.as_u16();
    assert!(status < 500, "{told}: {status} {}", reply.text());
    if status >= 400 {
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{told}");
    }
}

#[test]
fn every_representative_operation_exists() {
    let all = operations();
    for name in REPRESENTATIVE {
        assert!(all.iter().any(|operation| operation.recipe.operation == name), "{name}");
    }
}

/// S47: every text of every address, with everything that might be taken for SQL.
#[tokio::test]
async fn s47_no_text_in_any_address_is_a_defect() {
    let (front, things) = stage().await;
    for operation in operations() {
        let token = caller(&operation);
        for text in texts_for(&operation) {
            let told = format!("{} {} {text:?}", operation.method, operation.path);
            for wrong in things.iter().map(|thing| thing.placeholder) {
                if operation.path.contains(&format!("{{{wrong}}}")) {
                    let path = operation.at(&things, |thing| {
                        if thing.placeholder == wrong { encoded(&text) } else { thing.name.clone() }
                    });
                    survives(operation.ask(&front, token, &path), &told).await;
                }
            }
            for query in &operation.queries {
                let path = format!("{}?{query}={}", operation.address(&things), encoded(&text));
                survives(operation.ask(&front, token, &path), &told).await;
            }
        }
    }
    assert_eq!(front.get(WEB).send().await.status, StatusCode::OK);
}

/// S47: and every text of every body and header.
#[tokio::test]
async fn s47_no_text_in_any_body_or_header_is_a_defect() {
    let (front, things) = stage().await;
    let headers = [
        "if-match",
        "if-none-match",
        "last-event-id",
        "trueup-org",
        "traceparent",
        "idempotency-key",
    ];
    for operation in operations() {
        let (token, address) = (caller(&operation), operation.address(&things));
        for text in texts_for(&operation) {
            let told = format!("{} {address} {text:?}", operation.method);
            if let Some(body) = operation.recipe.body {
                for pointer in texts(&body(), String::new()) {
                    let mut body = body();
                    *body.pointer_mut(&pointer).unwrap() = json!(text);
                    survives(operation.ask(&front, token, &address).json(&body), &told).await;
                }
            }
            if text.bytes().all(|byte| byte >= b' ') {
                for name in headers {
                    let ask = operation.ask(&front, token, &address).without(name.parse().unwrap());
                    survives(ask.header(name, &text), &told).await;
                }
            }
        }
    }
}

/// Where the texts of a value are.
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

/// S11: what only Trueup decides cannot be sent along.
#[tokio::test]
async fn s11_fields_that_are_not_the_callers_are_refused_by_name() {
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
    for operation in operations() {
        let Some(body) = operation.recipe.body else { continue };
        for field in own
            .iter()
            .filter(|field| !operation.fields.iter().flatten().any(|known| known == *field))
        {
            let mut body = body();
            body.as_object_mut().unwrap().insert((*field).to_owned(), json!("x"));
            let ask = operation.ask(&front, caller(&operation), &operation.address(&things));
            let problem = ask.json(&body).send().await.must_be(400, "TU1101");
            let said = problem["detail"].as_str().unwrap();
            assert!(said.contains(&format!("`{field}`")), "{} {said}", operation.path);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    assert_eq!(front.stored(None).await, before);
}

/// S50: bodies that are too large, too deep or have no end.
#[tokio::test]
async fn s50_bodies_have_a_limit_whoever_reads_them() {
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
    // An operation that takes no body does not read one either.
    for method in [Method::GET, Method::DELETE] {
        front
            .ask(method, WEB)
            .header("content-length", "10485760")
            .body(huge.clone())
            .send()
            .await
            .must_be(413, "TU1102");
    }
    // Without a length, what comes is counted.
    let endless =
        stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 8192])));
    let request = Request::put(WEB)
        .header("authorization", format!("Bearer {OWNER}"))
        .body(Body::from_stream(endless))
        .unwrap();
    let answer = tokio::time::timeout(PATIENCE, router(front.state.clone()).oneshot(request)).await;
    assert_eq!(answer.unwrap().unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}

/// S50: a body that does not come.
#[tokio::test]
async fn s50_a_body_that_does_not_arrive_is_not_waited_for() {
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
    let answer = answer.expect("there should be an answer").unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

/// S50: the flood of one org is waited for, then refused, and never at the cost of another.
#[tokio::test]
async fn s50_the_flood_of_one_org_does_not_drown_another() {
    let front = Front::with_web().await;
    let router = router(front.state.clone());
    let ask = |path: &str, token: &str| {
        let ask = Ask::new(router.clone(), Method::GET, path).token(token);
        async move { ask.send().await }
    };
    assert_eq!(ask("/v1/projects", OWNER).await.status, 200, "from now on this token is known");
    // Whoever reads projects has to wait until this is over.
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    sqlx::raw_sql("begin; lock table projects in access exclusive mode")
        .execute(&mut lock)
        .await
        .unwrap();
    let mut flood = JoinSet::new();
    for _ in 0..400 {
        flood.spawn(ask("/v1/projects", OWNER));
    }
    let refused =
        tokio::time::timeout(PATIENCE, flood.join_next()).await.unwrap().unwrap().unwrap();
    refused.must_be(429, "TU1007");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let other = tokio::time::timeout(PATIENCE, ask("/v1/events", STRANGER)).await;
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
    assert_eq!((good, busy), (268, 132), "twelve at work, 256 who wait, and nobody else");
    // It is over, and nothing is left of it.
    assert_eq!(ask("/v1/projects", OWNER).await.status, 200);
}

/// S50: a flood of tokens that nobody has takes a few connections and never the last.
#[tokio::test]
async fn s50_a_flood_without_credentials_leaves_room_for_callers_who_have_them() {
    let front = Front::with_web().await;
    let router = router(front.state.clone());
    let ask = |token: &str| {
        let ask = Ask::new(router.clone(), Method::GET, "/v1/projects").token(token);
        async move { ask.send().await }
    };
    assert_eq!(ask(OWNER).await.status, 200, "from now on this token is known");
    // Whoever looks a token up has to wait until this is over.
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let begin = "begin; lock table tokens in access exclusive mode";
    sqlx::raw_sql(begin).execute(&mut lock).await.unwrap();
    let mut flood = JoinSet::new();
    for number in 0..400 {
        flood.spawn(ask(&format!("nobody-{number}")));
    }
    let refused =
        tokio::time::timeout(PATIENCE, flood.join_next()).await.unwrap().unwrap().unwrap();
    refused.must_be(429, "TU1007");
    // Without a lane of their own they would hold every connection that there is.
    front.state.app.ping().await.expect("a connection should be free");
    let mut known = JoinSet::new();
    known.spawn(ask(OWNER));
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    assert_eq!(
        tokio::time::timeout(PATIENCE, known.join_next()).await.unwrap().unwrap().unwrap().status,
        200
    );
    let (mut strangers, mut busy) = (0, 1);
    while let Some(reply) = flood.join_next().await {
        match reply.unwrap().status.as_u16() {
            401 => strangers += 1,
            429 => busy += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(strangers + busy, 400);
    assert!(strangers >= 256, "{strangers}");
}

/// S40: a canary for every secret that passes through the door.
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
    // While there is only one subscriber, a line that another test's thread reaches first is switched
    // off for all threads.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (front, things) = stage().await;
    let secret = front.new_id(&json!({"name": "ci", "role": "owner"})).await;
    let made = front.post("/v1/orgs").token(OPERATOR).json(&json!({"name": "fresh"})).send().await;
    let fresh = made.json()["owner"]["secret"].as_str().unwrap().to_owned();
    let mut told = String::new();
    for token in [&secret, &fresh] {
        for operation in operations() {
            let reply = operation.ask(&front, token, &operation.address(&things)).send().await;
            if operation.recipe.operation != "token_create" {
                told += reply.text();
            }
            let wrong = operation.ask(&front, token, &operation.address(&things)).body("{nonsense");
            told += wrong.send().await.text();
        }
        let addresses = [
            format!("/{token}"),
            format!("/v1/services?token={token}"),
            format!("/v1/tokens/{token}"),
        ];
        for address in addresses {
            told += front.get(&address).send().await.text();
        }
        told += front.get(WEB).token(&format!("{token}x")).send().await.text();
        let name = json!({"name": token, "role": "viewer"});
        told += front.post("/v1/tokens").json(&name).send().await.text();
    }
    front.seal().await;
    told += front.get("/v1/events").send().await.text();
    told += front.get("/metrics").token(OPERATOR).send().await.text();
    told += &format!("{:?} {:?}", front.stored(None).await, front.state);
    let log = log.text();
    assert!(log.contains("request") && log.len() > 10_000, "the log should be full");
    for (what, text) in [("an answer", told), ("the log", log)] {
        for secret in [&secret, &fresh] {
            assert!(!text.contains(&secret[30..]), "{what} holds a token");
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
