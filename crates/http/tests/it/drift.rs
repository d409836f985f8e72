//! Drift: policies in manifests, lists of divergences and conflicts, and decisions about them.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use trueup_model::Clock;
use trueup_model::id::{ConflictId, DivergenceId};

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, Reply, STRANGER, VIEWER, WEB, web};

const DRIFT: &str = "/v1/drift";
const CONFLICTS: &str = "/v1/conflicts";

/// Stores a divergence of the service `web`, as a report of an executor would: the number of pods, or
/// another field, was changed from 1 to 3. Returns its id.
pub(crate) async fn diverged(front: &Front, field: &str, state: &str) -> String {
    let id = DivergenceId::from_parts(front.clock.now(), entropy(field));
    sqlx::query(
        "insert into divergences (id, org_id, project_id, subject_kind, subject_id, cluster_id, kind,
             namespace, name, field, class, wanted, live, manager, verdict, state, generation,
             first_seen_at, last_seen_at, gone_at, ended_at, expires_at, hourly_micros, currency)
         select $1, s.org_id, s.project_id, 'service', s.id, s.cluster_id, 'Deployment',
             p.namespace, s.object_name, $2, 'edited', '1'::jsonb, '3'::jsonb, 'kubectl-scale',
             'adopt', $3, s.generation, seen.moment, seen.moment, ended.moment, ended.moment,
             case when $3 = 'proposed' then seen.moment + interval '24 hours' end, 13700, 'EUR'
         from services s join projects p on p.id = s.project_id
         cross join (select $4::text::timestamptz as moment) seen
         left join lateral (select seen.moment where $3 in ('reverted', 'restored')) ended on true
         where s.name = 'web' and p.name = 'shop'",
    )
    .bind(id.uuid())
    .bind(field)
    .bind(state)
    .bind(front.clock.now().to_string())
    .execute(&front.owner)
    .await
    .unwrap();
    id.to_string()
}

/// Stores a conflict about a field of the service `web`. Returns its id.
pub(crate) async fn fought_over(front: &Front, field: &str) -> String {
    let id = ConflictId::from_parts(front.clock.now(), entropy(field));
    sqlx::query(
        "insert into conflicts (id, org_id, project_id, subject_kind, subject_id, cluster_id, kind,
             namespace, name, field, manager, raised_at)
         select $1, s.org_id, s.project_id, 'service', s.id, s.cluster_id, 'Deployment',
             p.namespace, s.object_name, $2, 'argocd', $3::text::timestamptz
         from services s join projects p on p.id = s.project_id
         where s.name = 'web' and p.name = 'shop'",
    )
    .bind(id.uuid())
    .bind(field)
    .bind(front.clock.now().to_string())
    .execute(&front.owner)
    .await
    .unwrap();
    id.to_string()
}

/// Bytes for the id of something about this field.
fn entropy(field: &str) -> [u8; 10] {
    let mut entropy = [0; 10];
    for (slot, byte) in entropy.iter_mut().zip(field.bytes().rev()) {
        *slot = byte;
    }
    entropy
}

async fn listed(front: &Front, query: &str) -> Vec<String> {
    let reply = front.get(&format!("{DRIFT}?{query}")).token(VIEWER).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{query}: {}", reply.text());
    let items = reply.json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn decide(front: &Front, divergence: &str, word: &str) -> Reply {
    front.post(&format!("{DRIFT}/{divergence}/{word}")).json(&json!({})).send().await
}

async fn settle(front: &Front, conflict: &str, body: &Value) -> Reply {
    front.post(&format!("{CONFLICTS}/{conflict}/settle")).json(body).send().await
}

fn with_drift(drift: &Value) -> Value {
    let mut manifest = web("nginx:1");
    manifest["drift"] = drift.clone();
    manifest
}

#[tokio::test]
async fn policies_are_declared_with_services_and_projects() {
    let front = Front::with_web().await;
    let policy = json!({"verdict": "enforce", "adopt": "keep", "rules": [
        {"kind": "Deployment", "path": "spec.replicas", "verdict": "ignore"}]});
    let declared = front.put(WEB).json(&with_drift(&policy)).send().await;
    assert_eq!(declared.status, StatusCode::ACCEPTED, "{}", declared.text());
    assert_eq!(front.get(WEB).send().await.json()["drift"], policy);
    let again = front.put(WEB).json(&with_drift(&policy)).send().await;
    assert_eq!(again.status, StatusCode::OK, "unchanged");
    let without = front.put(WEB).json(&web("nginx:1")).send().await;
    assert_eq!(without.status, StatusCode::ACCEPTED, "no policy of its own");
    assert_eq!(front.get(WEB).send().await.json().get("drift"), None);

    let shop = "/v1/projects/shop";
    let declared = front.put(shop).json(&json!({"drift": policy})).send().await;
    assert_eq!(declared.status, StatusCode::ACCEPTED, "{}", declared.text());
    assert_eq!(front.get(shop).send().await.json()["drift"], policy);
    let other = front.put(&format!("{WEB}?with_project=true")).json(&web("nginx:2")).send().await;
    assert_eq!(other.status, StatusCode::ACCEPTED);
    assert_eq!(front.get(shop).send().await.json()["drift"], policy, "only a PUT of it changes it");
    assert_eq!(front.put(shop).json(&json!({})).send().await.status, StatusCode::ACCEPTED);
    assert_eq!(front.get(shop).send().await.json().get("drift"), None);
}

#[tokio::test]
async fn invalid_policies_are_refused_with_the_nearest_valid_word() {
    let front = Front::with_web().await;
    let rule = |rule: Value| json!({"rules": [rule]});
    for (drift, field, message) in [
        (json!({"verdict": "enfore"}), "drift.verdict", "`enforce`"),
        (json!({"adopt": "automatc"}), "drift.adopt", "`automatic`"),
        (
            rule(json!({"kind": "Deploymnt", "verdict": "ignore"})),
            "drift.rules.0.kind",
            "`Deployment`",
        ),
        (
            rule(json!({"path": "spec.replica", "verdict": "ignore"})),
            "drift.rules.0.path",
            "`spec.replicas`",
        ),
        (
            rule(json!({"path": "metadata.ownerReferences", "verdict": "ignore"})),
            "drift.rules.0.verdict",
            "must be enforce",
        ),
    ] {
        for (path, body) in
            [(WEB, with_drift(&drift)), ("/v1/projects/shop", json!({"drift": drift}))]
        {
            let problem = front.put(path).json(&body).send().await.must_be(422, "TU1201");
            let errors = problem["errors"].as_array().unwrap();
            let found = errors.iter().find(|error| error["field"] == field);
            let found = found.unwrap_or_else(|| panic!("{field}: {problem}"));
            assert!(found["message"].as_str().unwrap().contains(message), "{problem}");
        }
    }
    // A field that is no field of a policy is not understood at all.
    let odd = with_drift(&json!({"verdicts": []}));
    front.put(WEB).json(&odd).send().await.must_be(400, "TU1101");
}

#[tokio::test]
async fn divergences_are_listed_by_project_service_and_state() {
    let front = Front::with_web().await;
    let standing = diverged(&front, "spec.replicas", "proposed").await;
    front.clock.advance(Duration::from_secs(1));
    let ended = diverged(&front, "spec.paused", "reverted").await;
    let web = front.get(WEB).send().await.json();
    let id = web["id"].as_str().unwrap();
    let both = [standing.clone(), ended.clone()];
    for (query, expected) in [
        (String::new(), &both[..1]),
        ("ended=true".to_owned(), &both[..]),
        ("state=reverted".to_owned(), &both[1..]),
        ("state=ignored".to_owned(), &both[..0]),
        ("project=shop".to_owned(), &both[..1]),
        ("project=shop&service=web&ended=true".to_owned(), &both[..]),
        (format!("service={id}"), &both[..1]),
        (format!("ended=true&after={standing}"), &both[1..]),
    ] {
        assert_eq!(listed(&front, &query).await, expected, "{query}");
    }
    let page = front.get(&format!("{DRIFT}?ended=true&limit=1")).send().await.json();
    assert_eq!(page["next"], standing.as_str());

    front.get(&format!("{DRIFT}?project=none")).send().await.must_be(404, "TU1003");
    front.get(&format!("{DRIFT}?project=shop&service=none")).send().await.must_be(404, "TU1003");
    for bad in ["service=web", "state=odd", "after=x", "limit=0", "colour=red"] {
        front.get(&format!("{DRIFT}?{bad}")).send().await.must_be(400, "TU1103");
    }
}

#[tokio::test]
async fn divergence_shows_its_names_values_and_cost() {
    let front = Front::with_web().await;
    let id = diverged(&front, "spec.replicas", "proposed").await;
    front.clock.advance(Duration::from_secs(1800));
    let shown = front.get(&format!("{DRIFT}/{id}")).token(VIEWER).send().await.json();
    for (field, expected) in [
        ("project", json!("shop")),
        ("service", json!("web")),
        ("field", json!("spec.replicas")),
        ("wanted", json!(1)),
        ("live", json!(3)),
        ("by", json!("kubectl-scale")),
        ("class", json!("edited")),
        ("verdict", json!("adopt")),
        ("state", json!("proposed")),
    ] {
        assert_eq!(shown[field], expected, "{field}: {shown}");
    }
    assert_eq!(shown["hourly"]["micros"], 13_700);
    assert_eq!(shown["cost_so_far"]["text"], "0.00685 EUR", "half an hour: {shown}");
    let service = front.get(WEB).send().await.json();
    assert_eq!(service["divergences"][0]["field"], "spec.replicas", "{service}");
    assert_eq!(service["divergences"][0]["object"], shown["object"]);

    let report = front.get(&format!("{DRIFT}/report")).token(VIEWER).send().await.json();
    let [sum] = report["items"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&sum["project"], &sum["class"]), (&json!("shop"), &json!("edited")));
    assert_eq!((&sum["count"], &sum["seconds"]), (&json!(1), &json!(1800)));
    assert_eq!(sum["cost"]["text"], "0.00685 EUR", "{report}");
    // A report of the future or of all time is one of now or of all time.
    for since in ["2999-01-01T00:00:00Z", "-009999-01-02T01:59:59Z"] {
        let path = format!("{DRIFT}/report?since={since}");
        assert_eq!(front.get(&path).send().await.status, StatusCode::OK, "{since}");
    }
    front.get(&format!("{DRIFT}/report?since=yesterday")).send().await.must_be(400, "TU1103");
}

#[tokio::test]
async fn drift_of_another_org_is_not_found() {
    let front = Front::with_web().await;
    let divergence = diverged(&front, "spec.replicas", "proposed").await;
    let conflict = fought_over(&front, "spec.paused").await;
    let before = front.stored(None).await;
    for path in [DRIFT, CONFLICTS] {
        let theirs = front.get(path).token(STRANGER).send().await.json();
        assert_eq!(theirs, json!({"items": []}), "{path}");
    }
    let report = front.get(&format!("{DRIFT}/report")).token(STRANGER).send().await.json();
    assert_eq!(report["items"], json!([]));
    let path = format!("{DRIFT}/{divergence}");
    front.get(&path).token(STRANGER).send().await.must_be(404, "TU1003");
    for word in ["adopt", "reject"] {
        let request = front.post(&format!("{path}/{word}")).token(STRANGER).json(&json!({}));
        request.send().await.must_be(404, "TU1003");
    }
    let ours = json!({"decision": "ours"});
    let request = front.post(&format!("{CONFLICTS}/{conflict}/settle")).token(STRANGER).json(&ours);
    request.send().await.must_be(404, "TU1003");
    assert_eq!(front.stored(None).await, before);
}

#[tokio::test]
async fn value_is_adopted_once_and_a_rollback_undoes_it() {
    let front = Front::with_web().await;
    let id = diverged(&front, "spec.replicas", "proposed").await;
    let adopt = format!("{DRIFT}/{id}/adopt");
    let developer = front.post(&adopt).token(DEVELOPER).json(&json!({}));
    developer.send().await.must_be(403, "TU1002");
    let stale = front.post(&adopt).header("if-match", "\"g7\"").json(&json!({}));
    stale.send().await.must_be(412, "TU1301");

    let adopted = decide(&front, &id, "adopt").await;
    assert_eq!(adopted.status, StatusCode::ACCEPTED, "{}", adopted.text());
    let adopted = adopted.json();
    assert_eq!(adopted["state"], "adopted");
    assert_eq!(adopted["decided_by"], OWNER);
    let service = front.get(WEB).send().await.json();
    assert_eq!((&service["generation"], &service["replicas"]), (&json!(2), &json!(3)));

    for word in ["adopt", "reject"] {
        let problem = decide(&front, &id, word).await.must_be(409, "TU1306");
        let said = problem["detail"].as_str().unwrap();
        assert!(said.contains("adopted by the-owner"), "{said}");
    }
    let rollback = front.post(&format!("{WEB}/rollback")).json(&json!({"to": 1})).send().await;
    assert_eq!(rollback.status, StatusCode::ACCEPTED, "{}", rollback.text());
    assert_eq!(front.get(WEB).send().await.json()["replicas"], 1);
}

#[tokio::test]
async fn field_without_a_parameter_is_not_adopted() {
    let front = Front::with_web().await;
    let id = diverged(&front, "spec.minReadySeconds", "proposed").await;
    let before = front.stored(None).await;
    let problem = decide(&front, &id, "adopt").await.must_be(422, "TU1201");
    let said = problem["errors"][0]["message"].as_str().unwrap();
    assert!(said.contains("no parameter of `web@1` sets `spec.minReadySeconds`"), "{said}");
    assert_eq!(front.stored(None).await, before);
}

#[tokio::test]
async fn rejected_proposal_is_not_decided_again() {
    let front = Front::with_web().await;
    let ignored = diverged(&front, "spec.paused", "ignored").await;
    let problem = decide(&front, &ignored, "reject").await.must_be(422, "TU1201");
    assert!(problem["errors"][0]["message"].as_str().unwrap().contains("not proposed"));

    let id = diverged(&front, "spec.replicas", "proposed").await;
    let keyed = || {
        let path = format!("{DRIFT}/{id}/reject");
        front.post(&path).header("idempotency-key", "once").json(&json!({})).send()
    };
    let rejected = keyed().await;
    assert_eq!(rejected.status, StatusCode::ACCEPTED, "{}", rejected.text());
    assert_eq!(rejected.json()["state"], "rejected");
    assert_eq!(keyed().await.status, StatusCode::OK, "a retry");
    let problem = decide(&front, &id, "reject").await.must_be(409, "TU1306");
    assert!(problem["detail"].as_str().unwrap().contains("rejected by the-owner"), "{problem}");
    assert_eq!(front.get(WEB).send().await.json()["generation"], 1, "nothing was adopted");
}

#[tokio::test]
async fn conflict_is_settled_once_by_an_owner_or_an_operator() {
    let front = Front::with_web().await;
    let first = fought_over(&front, "spec.replicas").await;
    front.clock.advance(Duration::from_secs(1));
    let second = fought_over(&front, "spec.paused").await;
    let list = front.get(CONFLICTS).token(VIEWER).send().await.json();
    let [one, _] = list["items"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&one["id"], &one["by"]), (&json!(first), &json!("argocd")));
    assert_eq!((&one["service"], one.get("settled")), (&json!("web"), None));

    for (body, field) in [
        (json!({"decision": "theirs"}), "decision"),
        (json!({"decision": "ours", "for_hours": 0}), "for_hours"),
        (json!({"decision": "ours", "for_hours": 9000}), "for_hours"),
        (json!({"decision": "adopt", "for_hours": 1}), "for_hours"),
    ] {
        let problem = settle(&front, &first, &body).await.must_be(422, "TU1201");
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    let ours = json!({"decision": "ours", "for_hours": 8});
    let settled = settle(&front, &first, &ours).await;
    assert_eq!(settled.status, StatusCode::ACCEPTED, "{}", settled.text());
    let settled = settled.json();
    assert_eq!(settled["settled"]["by"], OWNER);
    let until = front.clock.now().checked_add(jiff::SignedDuration::from_hours(8)).unwrap();
    assert_eq!(settled["settled"]["until"], until.to_string());
    let problem = settle(&front, &first, &ours).await.must_be(409, "TU1306");
    assert!(problem["detail"].as_str().unwrap().contains("settled as ours by the-owner"));

    let path = format!("{CONFLICTS}/{second}/settle");
    let ignore = front.post(&path).token(OPERATOR).header("trueup-org", "acme");
    let ignore = ignore.json(&json!({"decision": "ignore"})).send().await;
    assert_eq!(ignore.status, StatusCode::ACCEPTED, "{}", ignore.text());
    assert_eq!(ignore.json()["settled"].get("until"), None, "for ever");
    let open = front.get(CONFLICTS).send().await.json();
    assert_eq!(open["items"], json!([]));
    let all = front.get(&format!("{CONFLICTS}?settled=true")).send().await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn conflict_is_settled_by_adopting_the_live_value() {
    let front = Front::with_web().await;
    diverged(&front, "spec.replicas", "in_conflict").await;
    let conflict = fought_over(&front, "spec.replicas").await;
    let adopt = settle(&front, &conflict, &json!({"decision": "adopt"})).await;
    assert_eq!(adopt.status, StatusCode::ACCEPTED, "{}", adopt.text());
    assert_eq!(adopt.json()["settled"]["decision"], "adopt");
    assert_eq!(front.get(WEB).send().await.json()["replicas"], 3);
    assert_eq!(listed(&front, "").await, Vec::<String>::new());
}
