//! Objects of another org get the same responses as missing ones.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Method;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

use crate::front::{Front, OWNER, Reply, STRANGER, WEB, web};
use crate::recipe::{NO_NAME, PUBLIC, operations, stage};

const NO_PROJECT: &str = "prj_01h455vb4pex5vsknk084sn02q";
const NO_SERVICE: &str = "svc_01h455vb4pex5vsknk084sn02q";

/// Everything of a response that a caller can compare.
pub(crate) fn visible(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let headers = reply.headers.iter().filter(|(name, _)| *name != "trueup-trace");
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (reply.status.as_u16(), headers.collect(), reply.masked())
}

/// S10: also in a project of the caller's own.
#[tokio::test]
async fn s10_foreign_objects_look_like_missing_ones() {
    let front = Front::with_web().await;
    let made = front.get(WEB).send().await.json();
    let service = made["id"].as_str().unwrap();
    let project = front.get("/v1/projects/shop").send().await.json();
    let project = project["id"].as_str().unwrap();
    // A project of the other org, so that only the service is foreign.
    let own = front.put("/v1/projects/mine").token(STRANGER).send().await;
    assert_eq!(own.status, 202);

    let pairs = [
        ("/v1/projects/shop".to_owned(), "/v1/projects/none".to_owned()),
        (format!("/v1/projects/{project}"), format!("/v1/projects/{NO_PROJECT}")),
        ("/v1/services?project=shop".to_owned(), "/v1/services?project=none".to_owned()),
        (format!("/v1/services?project={project}"), format!("/v1/services?project={NO_PROJECT}")),
        (WEB.to_owned(), "/v1/projects/none/services/web".to_owned()),
        (
            format!("/v1/projects/{project}/services/{service}"),
            format!("/v1/projects/{NO_PROJECT}/services/{NO_SERVICE}"),
        ),
        (
            format!("/v1/projects/mine/services/{service}"),
            format!("/v1/projects/mine/services/{NO_SERVICE}"),
        ),
    ];
    let before = front.rows().await;
    for (theirs, missing) in pairs {
        let is_service = theirs.contains("/services/");
        let mut requests = vec![(Method::GET, "")];
        if is_service {
            requests.extend([(Method::GET, "/watch"), (Method::DELETE, "")]);
        }
        for (method, more) in requests {
            let answer = |path: &str| {
                let path = format!("{path}{more}");
                front.request(method.clone(), &path).token(STRANGER).send()
            };
            let (theirs, missing) = (answer(&theirs).await, answer(&missing).await);
            theirs.must_be(404, "TU1003");
            assert_eq!(visible(&theirs), visible(&missing));
        }
    }
    assert_eq!(front.rows().await, before);
    assert_eq!(front.get(WEB).send().await.json(), made);
}

#[tokio::test]
async fn declaring_into_a_foreign_project_returns_404() {
    let front = Front::with_web().await;
    let project = front.get("/v1/projects/shop").send().await.json();
    let project = project["id"].as_str().unwrap();
    let before = front.rows().await;
    let pairs = [("shop", "none"), (project, NO_PROJECT)];
    for (theirs, missing) in pairs {
        let answer = |project: &str| {
            let path = format!("/v1/projects/{project}/services/web");
            front.put(&path).token(STRANGER).json(&web("evil:1")).send()
        };
        let (theirs, missing) = (answer(theirs).await, answer(missing).await);
        theirs.must_be(404, "TU1003");
        assert_eq!(visible(&theirs), visible(&missing));
    }
    assert_eq!(front.rows().await, before);
}

/// S14: lists, filters and positions.
#[tokio::test]
async fn s14_lists_and_pages_contain_nothing_of_another_org() {
    let front = Front::with_web().await;
    front.seal().await;
    for path in ["/v1/projects", "/v1/services", "/v1/events"] {
        let ours = front.get(path).token(OWNER).send().await.json();
        assert!(!ours["items"].as_array().unwrap().is_empty(), "{path}");
        let theirs = front.get(path).token(STRANGER).send().await.json();
        assert_eq!(theirs["items"], json!([]), "{path}");
    }
    // Positions are not secret: any number is accepted.
    for after in ["0", "1", "9223372036854775807"] {
        let path = format!("/v1/events?after={after}");
        let page = front.get(&path).token(STRANGER).send().await.json();
        assert_eq!(page, json!({"items": [], "next": after}));
    }
}

/// S15: a name in another org is not taken.
#[tokio::test]
async fn s15_equal_names_in_two_orgs_do_not_conflict() {
    let front = Front::with_web().await;
    assert_eq!(front.put("/v1/projects/shop").token(STRANGER).send().await.status, 202);
    let theirs = front.put(WEB).token(STRANGER).json(&web("theirs:1")).send().await;
    assert_eq!(theirs.status, 202);
    assert_eq!(front.delete(WEB).token(STRANGER).send().await.status, 202);
    let ours = front.get(WEB).send().await.json();
    assert_eq!((&ours["desired"], &ours["generation"]), (&json!("active"), &json!(1)));
    assert_eq!(ours["parameters"]["image"], "nginx:1");
    assert_ne!(ours["namespace"], theirs.json()["namespace"]);
    // The same holds for the name of a token.
    let token = json!({"name": "ci", "role": "viewer"});
    for owner in [OWNER, STRANGER] {
        let made = front.post("/v1/tokens").token(owner).json(&token).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    assert_eq!(front.delete("/v1/tokens/ci").token(STRANGER).send().await.status, 200);
    assert!(front.get("/v1/tokens").send().await.text().contains("\"ci\""));
}

/// S09: the same statements run, so that timing does not reveal the difference.
#[tokio::test]
async fn s09_foreign_and_missing_objects_run_the_same_statements() {
    let log = Statements::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (front, things) = stage().await;
    // The first use of a token within an hour writes a row.
    assert_eq!(front.get("/v1/projects").token(STRANGER).send().await.status, 200);
    let mut compared = 0;
    for operation in operations() {
        let recipe = operation.recipe;
        if recipe.declares || PUBLIC.contains(&recipe.operation) || !operation.names_something() {
            continue;
        }
        let statements = async |path: String| {
            log.take();
            operation.request(&front, STRANGER, &path).send().await;
            log.take()
        };
        let ids = operation.at(&things, |thing| thing.id.clone());
        let no_ids = operation.at(&things, |thing| thing.no_id.clone());
        let no_names = operation.at(&things, |_| NO_NAME.to_owned());
        for (theirs, missing) in [(operation.address(&things), no_names), (ids, no_ids)] {
            let (theirs, missing) = (statements(theirs).await, statements(missing).await);
            assert!(!theirs.is_empty(), "the caller is authenticated: {}", operation.path);
            assert_eq!(theirs, missing, "{} {}", operation.method, operation.path);
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}

/// The statements that were sent to Postgres.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statements(Arc<Mutex<Vec<String>>>);

impl Statements {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: layer::Context<'_, S>) {
        if event.metadata().target() == "sqlx::query" {
            let mut summary = Summary::default();
            event.record(&mut summary);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(summary.0);
        }
    }
}

/// The beginning of a statement.
#[derive(Default)]
struct Summary(String);

impl Visit for Summary {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "summary" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
