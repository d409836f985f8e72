//! Floods of several orgs at once: others keep their connections, and operators get in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::Method;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use trueup_http::router;
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_store::App;

use crate::front::{Front, OPERATOR, OWNER, PATIENCE, Reply, STRANGER, TestRequest, app_state};
use crate::unavailable::take_every_connection;

const THIRD: &str = "the-third";
/// More requests than an org may have in flight and in its queue.
const FLOOD: usize = 300;

struct Flood {
    router: Router,
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    /// Signalled by each request that was served.
    served: Arc<Notify>,
}

impl Flood {
    /// Two orgs that always have [`FLOOD`] requests each.
    fn of_two_orgs(router: &Router) -> Self {
        let (stop, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (tasks, served) = (JoinSet::new(), Arc::default());
        let mut flood = Self { router: router.clone(), tasks, stop, refused, served };
        for token in [OWNER, STRANGER] {
            for _ in 0..FLOOD {
                flood.add(token);
            }
        }
        flood
    }

    fn add(&mut self, token: &'static str) {
        let (router, stop) = (self.router.clone(), Arc::clone(&self.stop));
        let (refused, served) = (Arc::clone(&self.refused), Arc::clone(&self.served));
        self.tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let request = TestRequest::new(router.clone(), Method::GET, "/v1/projects");
                let reply = request.token(token).send().await;
                match reply.status.as_u16() {
                    200 | 401 => served.notify_one(),
                    // The flood is the one that is refused. It comes back as soon as there is room.
                    429 => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        served.notified().await;
                    }
                    other => panic!("{other}: {}", reply.text()),
                }
            }
        });
    }

    async fn until_refused(&self) {
        let refused = async {
            while self.refused.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("a flood should exceed the limits");
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let Self { mut tasks, served, .. } = self;
        // Each that ends lets one that was refused end, too.
        while !tasks.is_empty() {
            served.notify_waiters();
            served.notify_one();
            tasks.join_next().await.unwrap().unwrap();
        }
    }
}

async fn front_with_third_org() -> (Front, Router) {
    let front = Front::with_web().await;
    let (setup, now) = (&front.db.setup, front.clock.now());
    let third = setup.ensure_org("third", now).await.unwrap();
    setup.ensure_token(THIRD, THIRD, Role::Owner, Some(third), now).await.unwrap();
    let router = router(front.state.clone());
    (front, router)
}

async fn timed(router: &Router, token: &str) -> (Reply, Duration) {
    let begun = Instant::now();
    let request = TestRequest::new(router.clone(), Method::GET, "/v1/projects").token(token);
    let reply = tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer");
    (reply, begun.elapsed())
}

/// The median and the worst of some requests that must all be answered.
async fn latency(router: &Router, token: &str) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..60 {
        let (reply, time) = timed(router, token).await;
        assert_eq!(reply.status, 200, "a third org is never refused: {}", reply.text());
        times.push(time);
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// S50, M4: two orgs flood at once. A third is never refused, and operators get into a flooding org
/// and end its token. Times are printed, and decide nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s50_flood_of_two_orgs_refuses_neither_a_third_nor_operators() {
    let (front, router) = front_with_third_org().await;
    for token in [OWNER, STRANGER, OPERATOR] {
        assert_eq!(timed(&router, token).await.0.status, if token == OPERATOR { 400 } else { 200 });
    }
    let quiet = latency(&router, THIRD).await;
    let flood = Flood::of_two_orgs(&router);
    flood.until_refused().await;
    let flooded = latency(&router, THIRD).await;
    println!("third org, median and worst: {quiet:?} alone, {flooded:?} next to two floods");

    // The owner of the flooding org is refused there; an operator is not, and ends the token.
    let operator = |method: Method, path: &str| {
        TestRequest::new(router.clone(), method, path).token(OPERATOR).header("trueup-org", "acme")
    };
    for _ in 0..20 {
        let listed = operator(Method::GET, "/v1/tokens").send().await;
        assert_eq!(listed.status, 200, "{}", listed.text());
    }
    let revoked = operator(Method::DELETE, &format!("/v1/tokens/{OWNER}")).send().await;
    assert!(revoked.status.is_success(), "{}", revoked.text());
    assert_eq!(timed(&router, THIRD).await.0.status, 200);
    flood.end().await;
    assert_eq!(timed(&router, OWNER).await.0.status, 401);
    drop(front);
}

/// S50, M4: every request of two orgs hangs. Others still get connections, whoever they are.
#[tokio::test]
async fn s50_two_orgs_that_hang_leave_connections_for_all_others() {
    let (front, router) = front_with_third_org().await;
    for token in [OWNER, STRANGER, THIRD, OPERATOR] {
        let known = TestRequest::new(router.clone(), Method::GET, "/v1/whoami").token(token);
        assert_eq!(known.send().await.status, 200, "this token is known from now on");
    }
    let get = |path: &str, token: &str| {
        let request = TestRequest::new(router.clone(), Method::GET, path).token(token);
        async move { tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer") }
    };
    assert_eq!(get("/readyz", THIRD).await.status, 200);
    // Requests that read the quota wait for this lock; every credential reads the projects of its roles.
    let mut lock = PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let begin = "begin; lock table quotas in access exclusive mode";
    sqlx::raw_sql(begin).execute(&mut lock).await.unwrap();
    let mut hanging = JoinSet::new();
    for token in [OWNER, STRANGER] {
        for _ in 0..FLOOD {
            hanging.spawn(get("/v1/quota", token));
        }
    }
    for _ in 0..2 {
        let refused = tokio::time::timeout(PATIENCE, hanging.join_next()).await;
        refused.expect("the queues are full").unwrap().unwrap().must_be(429, "TU1007");
    }
    for (path, token) in [("/v1/events", THIRD), ("/v1/orgs", OPERATOR), ("/v1/whoami", OPERATOR)] {
        assert_eq!(get(path, token).await.status, 200, "{path}");
    }
    let body = json!({"name": "late", "role": "viewer"});
    let late = TestRequest::new(router.clone(), Method::POST, "/v1/tokens").token(OPERATOR);
    let late = late.header("trueup-org", "acme").json(&body).send().await;
    assert_eq!(late.status, 201, "into the hanging org: {}", late.text());
    get("/v1/whoami", "no-such-token").await.must_be(401, "TU1001");
    // Readiness is not asked again within a second, and has a connection after that.
    assert_eq!(get("/readyz", THIRD).await.status, 200);
    front.clock.advance(Duration::from_secs(2));
    assert_eq!(get("/readyz", THIRD).await.status, 200);
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    while let Some(reply) = hanging.join_next().await {
        assert!(matches!(reply.unwrap().status.as_u16(), 200 | 429));
    }
}

/// M4: anybody may ask for readiness and for the document, so neither costs much.
#[tokio::test]
async fn readiness_is_asked_once_a_second_and_the_document_is_written_once() {
    let front = Front::new().await;
    let app = App::connect(&front.db.urls.app).unwrap();
    let router = router(app_state(app.clone(), &front.clock));
    let get = |path: &str| TestRequest::new(router.clone(), Method::GET, path).send();
    let (first, second) = (get("/openapi.json").await, get("/openapi.json").await);
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.body.as_ptr(), second.body.as_ptr(), "the same bytes, not a copy");
    assert_eq!(get("/readyz").await.status, 200);
    let mut lock = PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let hanging = take_every_connection(&front, &app, &mut lock).await;
    let ready = tokio::time::timeout(PATIENCE, get("/readyz")).await;
    assert_eq!(ready.expect("an answer").status, 200, "within a second of the last one");
    front.clock.advance(Duration::from_secs(2));
    get("/readyz").await.must_be(503, "TU2001");
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    hanging.join_all().await;
}
