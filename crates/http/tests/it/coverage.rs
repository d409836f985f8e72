//! Calls every operation of the OpenAPI document with every role, with foreign orgs and with bad
//! tokens. A new operation without a recipe fails here.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode, header};
use serde_json::json;
use trueup_model::principal::Role;

use crate::front::{ADMIN, AUDITOR, BILLING, DEVELOPER, MEMBER, OPERATOR, OWNER, STRANGER, VIEWER};
use crate::recipe::{
    NO_NAME, Operation, PUBLIC, RECIPES, all_operations, operations, prepare, stage,
};
use crate::stranger::visible;

const CALLERS: [(&str, Role); 8] = [
    (MEMBER, Role::Member),
    (VIEWER, Role::Viewer),
    (BILLING, Role::Billing),
    (DEVELOPER, Role::Developer),
    (ADMIN, Role::Admin),
    (OWNER, Role::Owner),
    (AUDITOR, Role::Auditor),
    (OPERATOR, Role::Operator),
];

#[tokio::test]
async fn every_operation_has_a_recipe_and_every_placeholder_a_value() {
    let operations = all_operations();
    let known: BTreeSet<&str> = operations.iter().map(|one| one.recipe.operation).collect();
    let listed: BTreeSet<&str> = RECIPES.iter().map(|recipe| recipe.operation).collect();
    assert_eq!(listed, known, "a recipe without an operation: remove its line from RECIPES");
    assert_eq!(RECIPES.len(), known.len(), "an operation has two recipes");
    let (_front, things) = stage().await;
    for operation in &operations {
        let address = operation.address(&things);
        let path = &operation.path;
        assert!(!address.contains('{'), "{path}: add a value for its placeholder to `things`");
        assert_eq!(
            operation.recipe.body.is_some(),
            operation.fields.is_some(),
            "{path}: a recipe has a body if the operation takes one"
        );
    }
}

/// S01: no, garbage, expired, revoked or doubled credentials.
#[tokio::test]
async fn s01_without_exactly_one_valid_token_every_operation_returns_401() {
    let (front, things) = stage().await;
    let revoked = front.create_token(&json!({"name": "revoked", "role": "owner"})).await;
    assert_eq!(front.delete("/v1/tokens/revoked").send().await.status, StatusCode::OK);
    let expired =
        front.create_token(&json!({"name": "x", "role": "owner", "expires_in_days": 1})).await;
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
            let mut request =
                operation.request(&front, OWNER, &address).without(header::AUTHORIZATION);
            for value in headers {
                request = request.header("authorization", value);
            }
            let reply = request.send().await;
            reply.must_be(401, "TU1001");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{address} {headers:?}");
            answers.insert(reply.masked());
        }
        assert_eq!(answers.len(), 1, "{address} reveals why a token is invalid");
    }
    assert_eq!(front.stored(None).await, before);
}

/// S12: roles without a permission that the operation needs get 403; with the others it succeeds.
#[tokio::test]
async fn s12_role_without_the_permission_gets_403_and_others_succeed() {
    let (shared, shared_things) = stage().await;
    for operation in operations() {
        let address = operation.address(&shared_things);
        let context = format!("{} {address}", operation.method);
        let recipe = operation.recipe;
        let before = shared.stored(None).await;
        for (token, _) in CALLERS.iter().filter(|(_, role)| !recipe.allows(*role)) {
            let reply = operation.request(&shared, token, &address).send().await;
            assert_eq!(reply.status, 403, "{context} as {token}");
            reply.must_be(403, "TU1002");
        }
        assert_eq!(shared.stored(None).await, before, "{context}");
        // A write gets its own stage, so that it succeeds at least once.
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
        for (token, _) in CALLERS.iter().filter(|(_, role)| recipe.allows(*role)) {
            let request = operation.request(front, token, &address);
            let request = body.iter().fold(request, |request, body| request.json(body));
            let reply = request.send().await;
            let said = format!("{context} as {token}: {} {}", reply.status, reply.text());
            assert!(!works || reply.status.is_success(), "{said}");
            assert!(!matches!(reply.status.as_u16(), 401 | 403 | 500..), "{said}");
            works = operation.method == Method::GET;
        }
    }
}

/// S09: responses for another org's objects and for missing ones are equal, byte for byte.
#[tokio::test]
async fn s09_foreign_objects_are_indistinguishable_from_missing_ones() {
    let (front, things) = stage().await;
    front.seal().await;
    let ours = front.stored(Some(front.other_org)).await;
    let mut operations = operations();
    // Last the operations that create objects of the stranger's own, with the same names.
    operations.sort_by_key(|operation| operation.recipe.declares);
    for operation in operations {
        let context = format!("{} {}", operation.method, operation.path);
        if PUBLIC.contains(&operation.recipe.operation) {
            continue;
        }
        if operation.names_something() {
            let ids = operation.at(&things, |thing| thing.id.clone());
            let no_ids = operation.at(&things, |thing| thing.no_id.clone());
            let no_names = operation.at(&things, |_| NO_NAME.to_owned());
            for (theirs, missing) in [(operation.address(&things), no_names), (ids, no_ids)] {
                let theirs = operation.request(&front, STRANGER, &theirs).send().await;
                let missing = operation.request(&front, STRANGER, &missing).send().await;
                if operation.recipe.declares {
                    assert_eq!(theirs.status, missing.status, "{context}");
                } else if !operation.recipe.allows(Role::Owner) {
                    theirs.must_be(403, "TU1002");
                    assert_eq!(visible(&theirs), visible(&missing), "{context}");
                } else {
                    // Operations that take only names reject every id before the lookup.
                    assert!(
                        matches!(theirs.status.as_u16(), 404 | 422),
                        "{context} {}",
                        theirs.text()
                    );
                    assert_eq!(visible(&theirs), visible(&missing), "{context}");
                }
            }
        } else {
            let reply = operation.request(&front, STRANGER, &operation.path).send().await;
            assert_ne!(reply.status, 500, "{context}");
            // Objects without an id belong to no tenant, and clusters to all of them.
            for thing in things
                .iter()
                .filter(|thing| thing.id != thing.name && thing.placeholder != "cluster")
            {
                assert!(!reply.text().contains(&thing.id), "{context} reveals {}", thing.id);
            }
        }
    }
    assert_eq!(front.stored(Some(front.other_org)).await, ours);
}

/// A caller whose role is too low gets the same response for existing and missing objects.
#[tokio::test]
async fn s09_forbidden_role_cannot_probe_for_objects() {
    let (front, things) = stage().await;
    let low = |operation: &Operation| !operation.recipe.allows(Role::Viewer);
    for operation in operations().iter().filter(|one| low(one) && one.names_something()) {
        let there = operation.request(&front, VIEWER, &operation.address(&things)).send().await;
        let absent = operation.at(&things, |_| NO_NAME.to_owned());
        let nowhere = operation.request(&front, VIEWER, &absent).send().await;
        there.must_be(403, "TU1002");
        assert_eq!(visible(&there), visible(&nowhere), "{}", operation.path);
    }
}

/// An operator must name an existing org, once.
#[tokio::test]
async fn operator_must_name_an_existing_org() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    for operation in operations() {
        let address = operation.address(&things);
        let request = || operation.request(&front, OPERATOR, &address).without(ORG);
        if !operation.recipe.orgless {
            request().send().await.must_be(400, "TU1103");
        }
        for unknown in ["", "unknown", "org_01h455vb4pex5vsknk084sn02q", "acme' or true --"] {
            request().header("trueup-org", unknown).send().await.must_be(404, "TU1003");
        }
        let twice = request().header("trueup-org", "acme").header("trueup-org", "other");
        twice.send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.stored(None).await, before);
}

/// The platform's own org has only events and operator tokens, no projects or services.
#[tokio::test]
async fn operator_cannot_write_to_the_platform_org() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    let writes = |one: &&Operation| one.method != Method::GET && !one.recipe.orgless;
    for operation in operations().iter().filter(writes) {
        let request = operation.request(&front, OPERATOR, &operation.address(&things)).without(ORG);
        request.header("trueup-org", "trueup").send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.stored(None).await, before);
    let events = front.get("/v1/events").token(OPERATOR).header("trueup-org", "trueup");
    assert_eq!(events.send().await.status, StatusCode::OK, "its events can be read");
}

const ORG: header::HeaderName = header::HeaderName::from_static("trueup-org");
