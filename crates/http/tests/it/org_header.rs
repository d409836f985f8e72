//! The header `Trueup-Org` with a token that belongs to an org.
//!
//! Such a token acts in its own org only. Naming another org is an error: ignoring the name would
//! change or delete something in an org that the caller did not mean.

use serde_json::json;

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, STRANGER, VIEWER, WEB};
use crate::recipe::{operations, stage};

const NO_ORG: &str = "org_01h455vb4pex5vsknk084sn02q";

#[tokio::test]
async fn own_org_may_be_named() {
    let front = Front::with_web().await;
    let ours = front.get("/v1/services").send().await;
    let id = front.db.org.to_string();
    for org in ["acme", &id] {
        for token in [VIEWER, DEVELOPER, OWNER] {
            let reply = front.get("/v1/services").token(token).header("trueup-org", org).send();
            assert_eq!(reply.await.body, ours.body, "{token} {org}");
        }
    }
}

#[tokio::test]
async fn another_org_is_refused_with_both_names() {
    let front = Front::with_web().await;
    let before = front.stored(None).await;
    let delete = |token: &str, org: &str| {
        front.delete("/v1/projects/shop").token(token).header("trueup-org", org).send()
    };
    let problem = delete(OWNER, "other").await.must_be(403, "TU1002");
    assert_eq!(
        problem["detail"],
        "this token belongs to org `acme` and cannot act in org `other`; remove `--org` (the header \
         `Trueup-Org`), or use a token of that org"
    );
    let problem = delete(STRANGER, "acme").await.must_be(403, "TU1002");
    assert!(problem["detail"].as_str().unwrap().contains("belongs to org `other`"), "{problem}");
    assert_eq!(front.stored(None).await, before, "nothing was deleted");
    assert_eq!(delete(OPERATOR, "acme").await.status, 202, "an operator may name any org");
}

/// The response must not say whether another org exists.
#[tokio::test]
async fn existing_and_missing_orgs_get_the_same_response() {
    let front = Front::with_web().await;
    let theirs = front.other_org.to_string();
    let answer = async |org: &str| {
        let reply = front.get(WEB).header("trueup-org", org).send().await;
        reply.must_be(403, "TU1002");
        reply.masked().replace(&format!("`{org}`"), "[org]")
    };
    let other = answer("other").await;
    for org in ["unknown", &theirs, NO_ORG, "trueup", "acme' or true --", ""] {
        assert_eq!(answer(org).await, other, "{org}");
    }
}

#[tokio::test]
async fn every_operation_refuses_another_org() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    for operation in operations() {
        let request = || operation.request(&front, OWNER, &operation.address(&things));
        let reply = request().header("trueup-org", "other").send().await;
        reply.must_be(403, "TU1002");
        let twice = request().header("trueup-org", "acme").header("trueup-org", "acme");
        twice.send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.stored(None).await, before);
    let services = front.get("/v1/services").token(STRANGER).send().await;
    assert_eq!(services.json(), json!({"items": []}));
}
