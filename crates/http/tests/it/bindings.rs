//! Roles in single projects: every operation with every such role, inside and outside of the project.

use std::time::Duration;

use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};
use trueup_model::principal::Role;
use trueup_testkit::test_db::PASSWORD;

use crate::front::{Front, PATIENCE, WEB, web};
use crate::recipe::{NO_NAME, Operation, Thing, operations, prepare, stage};
use crate::stranger::visible;
use crate::stream::Reader;

const GRACE: &str = "grace@example.com";

/// A token with this role in one project.
async fn token(front: &Front, role: Role, project: &str) -> String {
    let name = format!("{} of {project}", role.into_str());
    let body = json!({"name": name, "role": role, "project": project});
    front.create_token(&body).await
}

/// The objects of a stage, with an event of the project instead of one of the org.
async fn things_of(front: &Front, things: &[Thing], token: &str) -> Vec<Thing> {
    let events = front.get("/v1/events?limit=1").token(token).send().await.json();
    let event = events["items"][0]["id"].as_str().unwrap().to_owned();
    let mut things = things.to_vec();
    for thing in things.iter_mut().filter(|thing| thing.placeholder == "event") {
        (thing.name, thing.id) = (event.clone(), event.clone());
    }
    things
}

/// Operations of a stage whose object is in another project: the receipt of the former project.
const ELSEWHERE: [&str; 1] = ["receipt_get"];

fn in_project(operation: &&Operation) -> bool {
    !ELSEWHERE.contains(&operation.recipe.operation)
}

/// S12: inside of its project a role may do what its row says, and no role reaches the org.
#[tokio::test]
async fn s12_role_in_a_project_does_there_what_its_permissions_say() {
    let (shared, all) = stage().await;
    let mut tokens = Vec::new();
    for role in Role::OF_PROJECT {
        tokens.push((token(&shared, role, "shop").await, role));
    }
    let all = things_of(&shared, &all, &tokens[0].0).await;
    for operation in operations().iter().filter(in_project) {
        let address = operation.address(&all);
        let context = format!("{} {address}", operation.method);
        let recipe = operation.recipe;
        let before = shared.stored(None).await;
        for (token, role) in tokens.iter().filter(|(_, role)| !recipe.allows_in_project(*role)) {
            let reply = operation.request(&shared, token, &address).send().await;
            assert_eq!(reply.status, 403, "{context} as {role:?}: {}", reply.text());
            reply.must_be(403, "TU1002");
        }
        assert_eq!(shared.stored(None).await, before, "{context}");
        let Some((_, role)) = tokens.iter().find(|(_, role)| recipe.allows_in_project(*role))
        else {
            continue;
        };
        // A write gets its own stage, so that it succeeds.
        let own;
        let (front, address, secret) = if operation.method == Method::GET {
            (&shared, address, tokens.iter().find(|one| one.1 == *role).unwrap().0.clone())
        } else {
            own = stage().await;
            let secret = token(&own.0, *role, "shop").await;
            (&own.0, operation.address(&own.1), secret)
        };
        let body = prepare(front, operation).await;
        let request = operation.request(front, &secret, &address);
        let request = body.iter().fold(request, |request, body| request.json(body));
        let reply = request.send().await;
        assert!(
            reply.status.is_success(),
            "{context} as {role:?}: {} {}",
            reply.status,
            reply.text()
        );
    }
}

/// S09: what is in other projects is like what does not exist, for every operation and role.
#[tokio::test]
async fn s09_other_projects_are_indistinguishable_from_missing_ones() {
    let (front, things) = stage().await;
    assert_eq!(front.put("/v1/projects/blog").send().await.status, 202);
    front.seal().await;
    let mut tokens = Vec::new();
    for role in Role::OF_PROJECT {
        tokens.push(token(&front, role, "blog").await);
    }
    let before = front.stored(None).await;
    let mut compared = 0;
    for operation in operations() {
        let context = format!("{} {}", operation.method, operation.path);
        let is_public = crate::recipe::PUBLIC.contains(&operation.recipe.operation);
        for token in &tokens {
            if operation.names_something() && !is_public {
                let ids = operation.at(&things, |thing| thing.id.clone());
                let no_ids = operation.at(&things, |thing| thing.no_id.clone());
                let no_names = operation.at(&things, |_| NO_NAME.to_owned());
                for (theirs, missing) in [(operation.address(&things), no_names), (ids, no_ids)] {
                    let theirs = operation.request(&front, token, &theirs).send().await;
                    let missing = operation.request(&front, token, &missing).send().await;
                    let status = theirs.status.as_u16();
                    assert!(matches!(status, 403 | 404 | 422), "{context} {}", theirs.text());
                    let is_in_path = operation.path.starts_with("/v1/projects/{project}");
                    let is_of_tenants = operation.recipe.allows(Role::Owner);
                    assert!(
                        !is_in_path || !is_of_tenants || status == 404,
                        "{context} {}",
                        theirs.text()
                    );
                    assert_eq!(visible(&theirs), visible(&missing), "{context}");
                    compared += 1;
                }
            } else if operation.method == Method::GET {
                let reply = operation.request(&front, token, &operation.path).send().await;
                for thing in things.iter().filter(|thing| {
                    thing.id != thing.name && !["cluster", "org"].contains(&thing.placeholder)
                }) {
                    assert!(!reply.text().contains(&thing.id), "{context} reveals {}", thing.id);
                }
                assert!(!reply.text().contains("\"shop\""), "{context}: {}", reply.text());
            }
        }
    }
    assert!(compared > 200, "{compared}");
    assert_eq!(front.stored(None).await, before);
}

/// Lists show what a role reaches, and filters find nothing else.
#[tokio::test]
async fn s14_lists_show_the_projects_of_a_role_alone() {
    let front = Front::with_web().await;
    assert_eq!(front.put("/v1/projects/blog").send().await.status, 202);
    let api = "/v1/projects/blog/services/api";
    assert_eq!(front.put(api).json(&web("nginx:1")).send().await.status, 202);
    front.seal().await;
    let blog = token(&front, Role::Viewer, "blog").await;
    let of = async |path: &str| front.get(path).token(&blog).send().await;
    let names = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(of("/v1/projects").await.json()), ["blog"]);
    let list = of("/v1/services?count=true").await.json();
    assert_eq!(list["total"], 1);
    assert_eq!(names(list), ["api"]);
    assert_eq!(names(of("/v1/services?search=web").await.json()), Vec::<String>::new());
    of("/v1/services?project=shop").await.must_be(404, "TU1003");
    let overview = of("/v1/overview").await.text().to_owned();
    assert!(!overview.contains("shop") && !overview.contains("\"web\""), "{overview}");
    let events = of("/v1/events").await.json();
    let events = events["items"].as_array().unwrap();
    let all = front.get("/v1/events").send().await.json();
    assert!(!events.is_empty() && events.len() < all["items"].as_array().unwrap().len());
    let web = front.get(WEB).send().await.json()["id"].as_str().unwrap().to_owned();
    of(&format!("/v1/lookup/{web}")).await.must_be(404, "TU1003");
    assert_eq!(of(&format!("/v1/events?subject={web}")).await.json()["items"], json!([]));
}

/// A stream of somebody with one project has the events of that project, and ends with the role.
#[tokio::test]
async fn s04_stream_of_a_project_shows_it_alone_and_ends_with_the_role() {
    let front = Front::with_web().await;
    front.db.user(GRACE, Role::Member, front.db.org).await;
    assert_eq!(front.put("/v1/projects/blog").send().await.status, 202);
    let role = format!("/v1/members/{GRACE}/projects/blog");
    let put = front.put(&role).json(&json!({"role": "viewer"})).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    front.seal().await;
    let grace = front.sign_in(GRACE).await;
    let mut reader = Reader::open(front.get("/v1/events/watch?after=0").cookie(&grace)).await;
    let first = reader.next().await.unwrap();
    assert_eq!(first.event, "ProjectQueued", "{first:?}");
    front.declare("nginx:2").await;
    let api = "/v1/projects/blog/services/api";
    assert_eq!(front.put(api).json(&web("nginx:1")).send().await.status, 202);
    front.seal().await;
    let next = reader.next().await.unwrap();
    assert_eq!(next.event, "ServiceQueued", "{next:?}");
    let service = front.get(api).send().await.json()["id"].as_str().unwrap().to_owned();
    assert!(next.data.to_string().contains(&service), "of the other project: {next:?}");
    let put = front.put(&role).json(&json!({"role": "admin"})).send().await;
    assert_eq!(put.status, 200);
    front.clock.advance(Duration::from_secs(1));
    let ended = async { while reader.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream should end");
}

/// Issue 10: invited to one project's lifecycle, without its content; and out everywhere afterwards.
#[tokio::test]
async fn person_is_narrowed_to_the_lifecycle_of_one_project() {
    let front = Front::with_web().await;
    assert_eq!(front.put("/v1/projects/blog").send().await.status, 202);
    let secret = "/v1/projects/shop/services/web/secrets/KEY";
    assert_eq!(front.put(secret).json(&json!({"value": "x"})).send().await.status, 202);
    let body = json!({"email": GRACE, "role": "admin", "project": "shop"});
    let invited = front.post("/v1/invitations").json(&body).send().await;
    assert_eq!(invited.status, StatusCode::CREATED, "{}", invited.text());
    assert_eq!(invited.json()["project"], "shop");
    let code = invited.json()["code"].as_str().unwrap().to_owned();
    let body = json!({"code": code, "name": "Grace", "password": PASSWORD});
    let accepting = front.post("/v1/invitations/accept").without(header::AUTHORIZATION);
    let accepted = accepting.json(&body).send().await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    assert_eq!(accepted.json()["role"], "member");
    assert_eq!(accepted.json()["projects"][0]["name"], "shop");
    let grace = accepted.session();
    let get = async |path: &str| front.get(path).cookie(&grace).send().await;
    let post = async |path: &str, body: &Value| {
        front.post(path).cookie(&grace).on_our_page().json(body).send().await
    };
    assert_eq!(get(WEB).await.status, 200);
    for (operation, body) in [("scale", json!({"replicas": 2})), ("pause", json!({}))] {
        let reply = post(&format!("{WEB}/{operation}"), &body).await;
        assert_eq!(reply.status, 202, "{operation}: {}", reply.text());
    }
    for hidden in ["/logs", "/variables", "/secrets"] {
        get(&format!("{WEB}{hidden}")).await.must_be(403, "TU1002");
    }
    get("/v1/projects/blog").await.must_be(404, "TU1003");
    let made = front.put("/v1/projects/mine").cookie(&grace).on_our_page().send().await;
    made.must_be(404, "TU1003");
    get("/v1/members").await.must_be(403, "TU1002");
    let can = get("/v1/can-i?permission=manage_services&project=shop").await.json();
    assert_eq!(can["items"][0]["allowed"], true);
    let why = "role `admin` in project `shop` includes `manage_services`";
    assert_eq!(can["items"][0]["reason"], why);
    let can = get("/v1/can-i?permission=manage_services").await.json();
    assert_eq!(can["items"][0]["allowed"], false);
    get("/v1/can-i?project=blog").await.must_be(404, "TU1003");
    let who = get("/v1/whoami").await.json();
    assert_eq!((&who["role"], &who["projects"][0]["role"]), (&json!("member"), &json!("admin")));
    let gone = front.delete(&format!("/v1/members/{GRACE}/projects/shop")).send().await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    get(WEB).await.must_be(403, "TU1002");
    front.seal().await;
    let events = front.get("/v1/events?order=newest&limit=20").send().await;
    for kind in ["ProjectRoleGranted", "ProjectRoleRevoked"] {
        assert!(events.text().contains(kind), "{kind}");
    }
    assert!(!events.text().contains(GRACE), "events name people by id alone");
}

/// With a membership the roles in projects end.
#[tokio::test]
async fn removal_ends_the_roles_in_projects() {
    let front = Front::with_web().await;
    front.db.user(GRACE, Role::Viewer, front.db.org).await;
    let role = format!("/v1/members/{GRACE}/projects/shop");
    for wanted in ["owner", "billing", "member", "operator"] {
        front.put(&role).json(&json!({"role": wanted})).send().await.must_be(422, "TU1201");
    }
    let put = || front.put(&role).json(&json!({"role": "developer"}));
    assert_eq!(put().send().await.json()["projects"][0]["role"], "developer");
    assert_eq!(put().send().await.status, 200, "again");
    assert_eq!(front.delete(&format!("/v1/members/{GRACE}")).send().await.status, 200);
    put().send().await.must_be(404, "TU1003");
    let left = "select count(*) from role_bindings where removed_at is null";
    let left: i64 = sqlx::query_scalar(left).fetch_one(&front.owner).await.unwrap();
    assert_eq!(left, 0, "whoever comes back begins without the roles of before");
    front.delete(&role).send().await.must_be(404, "TU1003");
}
