//! Every operation that the OpenAPI document lists, called by everybody who should not be answered
//! and by everybody who should. A new operation without a recipe fails here and is told so.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode, header};
use serde_json::json;
use trueup_model::principal::Role;

use crate::front::{DEVELOPER, OPERATOR, OWNER, STRANGER, VIEWER};
use crate::recipe::{NO_NAME, Operation, PUBLIC, RECIPES, operations, prepare, stage};
use crate::stranger::visible;

const CALLERS: [(&str, Role); 4] = [
    (VIEWER, Role::Viewer),
    (DEVELOPER, Role::Developer),
    (OWNER, Role::Owner),
    (OPERATOR, Role::Operator),
];

#[tokio::test]
async fn every_operation_has_a_recipe_and_every_placeholder_something_to_stand_for() {
    let operations = operations();
    let known: BTreeSet<&str> = operations.iter().map(|one| one.recipe.operation).collect();
    let listed: BTreeSet<&str> = RECIPES.iter().map(|recipe| recipe.operation).collect();
    assert_eq!(listed, known, "a recipe without an operation: take its line out of RECIPES");
    assert_eq!(RECIPES.len(), known.len(), "an operation has two recipes");
    let (_front, things) = stage().await;
    for operation in &operations {
        let address = operation.address(&things);
        let path = &operation.path;
        assert!(!address.contains('{'), "{path}: add what its placeholder can name to `things`");
        assert_eq!(
            operation.recipe.body.is_some(),
            operation.fields.is_some(),
            "{path}: a recipe has a body where the operation takes one"
        );
    }
}

/// S01: no, garbage, expired, revoked or doubled credentials.
#[tokio::test]
async fn s01_nothing_answers_without_exactly_one_good_token() {
    let (front, things) = stage().await;
    let revoked = front.new_id(&json!({"name": "revoked", "role": "owner"})).await;
    assert_eq!(front.delete("/v1/tokens/revoked").send().await.status, StatusCode::OK);
    let expired = front.new_id(&json!({"name": "x", "role": "owner", "expires_in_days": 1})).await;
    front.clock.advance(std::time::Duration::from_secs(86_400));
    let good = format!("Bearer {OWNER}");
    let (revoked, expired) = (format!("Bearer {revoked}"), format!("Bearer {expired}"));
    let close = revoked.replace('z', "y").replace('0', "1");
    let bad: [&[&str]; 16] = [
        &[],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer nothing"],
        &["Bearer the-owner extra"],
        &["Bearer  the-owner"],
        &["Bearer the-ownér"],
        &["Basic dGhlLW93bmVyOg=="],
        &["the-owner"],
        &[good.as_str(), good.as_str()],
        &[good.as_str(), "Bearer nothing"],
        &[&revoked],
        &[&expired],
        &[&close],
        &["Bearer ' or true --"],
    ];
    let before = front.stored(None).await;
    for operation in operations() {
        let address = operation.address(&things);
        let mut answers = BTreeSet::new();
        for headers in bad {
            let mut ask = operation.ask(&front, OWNER, &address).without(header::AUTHORIZATION);
            for value in headers {
                ask = ask.header("authorization", value);
            }
            let reply = ask.send().await;
            reply.must_be(401, "TU1001");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{address} {headers:?}");
            answers.insert(reply.masked());
        }
        assert_eq!(answers.len(), 1, "{address} tells why a token is not good");
    }
    assert_eq!(front.stored(None).await, before);
}

/// S12: each role gets what its row says: 403 below it, never 403 from it on, and it works.
#[tokio::test]
async fn s12_each_operation_answers_from_its_least_role_on_and_refuses_below() {
    let (shared, shared_things) = stage().await;
    for operation in operations() {
        let address = operation.address(&shared_things);
        let told = format!("{} {address}", operation.method);
        let least = operation.recipe.least;
        let before = shared.stored(None).await;
        for (token, _) in CALLERS.iter().filter(|(_, role)| *role < least) {
            let reply = operation.ask(&shared, token, &address).send().await;
            assert_eq!(reply.status, 403, "{told} as {token}");
            reply.must_be(403, "TU1002");
        }
        assert_eq!(shared.stored(None).await, before, "{told}");
        // What changes something gets a stage of its own, so that it works at least once.
        let own;
        let (front, things) = if operation.method == Method::GET {
            (&shared, shared_things.clone())
        } else {
            own = stage().await;
            (&own.0, own.1.clone())
        };
        let address = operation.address(&things);
        let body = prepare(front, &operation).await;
        let mut works = true;
        for (token, _) in CALLERS.iter().filter(|(_, role)| *role >= least) {
            let ask = operation.ask(front, token, &address);
            let ask = body.iter().fold(ask, |ask, body| ask.json(body));
            let reply = ask.send().await;
            let said = format!("{told} as {token}: {} {}", reply.status, reply.text());
            assert!(!works || reply.status.is_success(), "{said}");
            assert!(!matches!(reply.status.as_u16(), 401 | 403 | 500..), "{said}");
            works = operation.method == Method::GET;
        }
    }
}

/// S09: another tenant's things are answered as random ones are, byte by byte.
#[tokio::test]
async fn s09_a_stranger_learns_nothing_from_any_operation() {
    let (front, things) = stage().await;
    front.seal().await;
    let ours = front.stored(Some(front.other_org)).await;
    let mut operations = operations();
    // Last those that make a thing of the stranger's own, under the names that the others look for.
    operations.sort_by_key(|operation| operation.recipe.declares);
    for operation in operations {
        let told = format!("{} {}", operation.method, operation.path);
        if PUBLIC.contains(&operation.recipe.operation) {
            continue;
        }
        if operation.names_something() {
            let ids = operation.at(&things, |thing| thing.id.clone());
            let no_ids = operation.at(&things, |thing| thing.no_id.clone());
            let no_names = operation.at(&things, |_| NO_NAME.to_owned());
            for (theirs, nobodys) in [(operation.address(&things), no_names), (ids, no_ids)] {
                let theirs = operation.ask(&front, STRANGER, &theirs).send().await;
                let nobodys = operation.ask(&front, STRANGER, &nobodys).send().await;
                if operation.recipe.declares {
                    assert_eq!(theirs.status, nobodys.status, "{told}");
                } else if operation.recipe.least == Role::Operator {
                    theirs.must_be(403, "TU1002");
                    assert_eq!(visible(&theirs), visible(&nobodys), "{told}");
                } else {
                    // What takes names only refuses every id alike, before it looks.
                    assert!(
                        matches!(theirs.status.as_u16(), 404 | 422),
                        "{told} {}",
                        theirs.text()
                    );
                    assert_eq!(visible(&theirs), visible(&nobodys), "{told}");
                }
            }
        } else {
            let reply = operation.ask(&front, STRANGER, &operation.path).send().await;
            assert_ne!(reply.status, 500, "{told}");
            // What has no id is no tenant's.
            for thing in things.iter().filter(|thing| thing.id != thing.name) {
                assert!(!reply.text().contains(&thing.id), "{told} tells {}", thing.id);
            }
        }
    }
    assert_eq!(front.stored(Some(front.other_org)).await, ours);
}

/// What is there and what is not are refused alike, also to a member whose role is too low.
#[tokio::test]
async fn s09_a_refused_role_learns_nothing_either() {
    let (front, things) = stage().await;
    let low = |operation: &Operation| operation.recipe.least > Role::Viewer;
    for operation in operations().iter().filter(|one| low(one) && one.names_something()) {
        let there = operation.ask(&front, VIEWER, &operation.address(&things)).send().await;
        let nobody = operation.at(&things, |_| NO_NAME.to_owned());
        let nowhere = operation.ask(&front, VIEWER, &nobody).send().await;
        there.must_be(403, "TU1002");
        assert_eq!(visible(&there), visible(&nowhere), "{}", operation.path);
    }
}

/// An operator says which org is meant, and a tenant is in its own whatever it says.
#[tokio::test]
async fn an_operator_names_an_org_that_there_is() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    for operation in operations() {
        let address = operation.address(&things);
        let ask = || operation.ask(&front, OPERATOR, &address).without(ORG);
        if !operation.recipe.orgless {
            ask().send().await.must_be(400, "TU1103");
        }
        for nobody in ["", "nobody", "org_01h455vb4pex5vsknk084sn02q", "acme' or true --"] {
            ask().header("trueup-org", nobody).send().await.must_be(404, "TU1003");
        }
        let twice = ask().header("trueup-org", "acme").header("trueup-org", "other");
        twice.send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.stored(None).await, before);
}

/// The platform's own org is for facts and operators' tokens: nothing is promised there.
#[tokio::test]
async fn an_operator_declares_nothing_in_the_platforms_own_org() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    let writes = |one: &&Operation| one.method != Method::GET && !one.recipe.orgless;
    for operation in operations().iter().filter(writes) {
        let ask = operation.ask(&front, OPERATOR, &operation.address(&things)).without(ORG);
        ask.header("trueup-org", "trueup").send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.stored(None).await, before);
    let events = front.get("/v1/events").token(OPERATOR).header("trueup-org", "trueup");
    assert_eq!(events.send().await.status, StatusCode::OK, "its facts can be read");
}

const ORG: header::HeaderName = header::HeaderName::from_static("trueup-org");
