//! Events as pages: all events in order, each once, for any page size.

use serde_json::{Value, json};

use crate::front::{Front, STRANGER, WEB, web};

async fn page(front: &Front, query: &str) -> Value {
    let reply = front.get(&format!("/v1/events{query}")).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn sequences(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|event| event["sequence"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn unsealed_events_are_not_listed() {
    let front = Front::with_web().await;
    assert_eq!(page(&front, "").await, json!({"items": [], "next": "0"}));
    front.seal().await;
    assert_eq!(sequences(&page(&front, "").await), ["1", "2"]);
}

#[tokio::test]
async fn events_are_the_same_for_any_page_size() {
    let front = Front::with_web().await;
    for number in 2..=10 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let whole = page(&front, "?limit=1000").await;
    let all: Vec<String> = (1..=11).map(|position| position.to_string()).collect();
    assert_eq!(sequences(&whole), all);
    for limit in [1, 2, 3, 7, 11, 1000] {
        let (mut story, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page = page(&front, &format!("?after={after}&limit={limit}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            story.extend(items.iter().cloned());
            let next = page["next"].as_str().unwrap().to_owned();
            if items.is_empty() {
                assert_eq!(next, after);
                break;
            }
            after = next;
        }
        assert_eq!(json!(story), whole["items"], "pages of {limit}");
    }
}

#[tokio::test]
async fn page_size_out_of_range_is_clamped() {
    let front = Front::with_web().await;
    front.seal().await;
    for (limit, count) in [("0", 1), ("-5", 1), ("1000000", 2)] {
        let page = page(&front, &format!("?limit={limit}")).await;
        assert_eq!(sequences(&page).len(), count, "{limit}");
    }
}

#[tokio::test]
async fn newest_order_lists_newest_events_first() {
    let front = Front::with_web().await;
    for number in 2..=4 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let first = page(&front, "?order=newest&limit=2").await;
    assert_eq!((sequences(&first), &first["next"]), (vec!["5".into(), "4".into()], &json!("4")));
    let second = page(&front, "?order=newest&limit=2&before=4").await;
    assert_eq!(sequences(&second), ["3", "2"]);
    let end = page(&front, "?order=newest&before=1").await;
    assert_eq!(end, json!({"items": [], "next": "1"}));
    assert_eq!(sequences(&page(&front, "?order=oldest&after=1&before=4").await), ["2", "3"]);
}

#[tokio::test]
async fn filters_select_matching_events() {
    let front = Front::with_web().await;
    let other = front.put("/v1/projects/shop/services/other").json(&web("nginx:1")).send().await;
    front.declare("nginx:2").await;
    front.seal().await;
    let project = front.get("/v1/projects/shop").send().await.json()["id"].clone();
    let (web, project) = (front.get(WEB).send().await.json(), project.as_str().unwrap().to_owned());
    let (web, other) = (web["id"].as_str().unwrap(), other.json()["id"].clone());
    let other = other.as_str().unwrap();
    for (query, expected) in [
        (format!("?subject={web}"), vec!["2", "4"]),
        (format!("?subject={other}"), vec!["3"]),
        (format!("?subject={project}"), vec!["1"]),
        (format!("?subject={web}&generation=2"), vec!["4"]),
        (format!("?subject={web}&order=newest&limit=1"), vec!["4"]),
        ("?type=ServiceQueued".to_owned(), vec!["2", "3", "4"]),
        ("?type=dev.trueup.ProjectQueued.v1".to_owned(), vec!["1"]),
        (format!("?type=ServiceQueued&subject={web}&after=2"), vec!["4"]),
        ("?type=NoSuchThing".to_owned(), vec![]),
        // A missing id and another org's id give the same result.
        ("?subject=svc_01h455vb4pex5vsknk084sn02q".to_owned(), vec![]),
    ] {
        assert_eq!(sequences(&page(&front, &query).await), expected, "{query}");
    }
    let theirs = front.get(&format!("/v1/events?subject={web}")).token(STRANGER).send().await;
    assert_eq!(theirs.json(), json!({"items": [], "next": "0"}));
}

#[tokio::test]
async fn invalid_query_is_refused() {
    let front = Front::with_web().await;
    for query in [
        "?after=x",
        "?before=-1",
        "?order=best",
        "?limit=many",
        "?subject=web",
        "?subject=tok_01h455vb4pex5vsknk084sn02q",
        "?subject=",
        "?type=",
        "?type=a%20b",
        "?type=x'or'1",
        "?generation=1",
        "?generation=one&subject=svc_01h455vb4pex5vsknk084sn02q",
        "?since=1",
    ] {
        front.get(&format!("/v1/events{query}")).send().await.must_be(400, "TU1103");
    }
}

#[tokio::test]
async fn an_event_is_a_cloud_event_about_its_subject() {
    let front = Front::with_web().await;
    front.seal().await;
    let event = page(&front, "?after=1").await["items"][0].clone();
    let service = front.get("/v1/projects/shop/services/web").send().await.json();
    assert!(event["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "dev.trueup.ServiceQueued.v1");
    assert_eq!(event["source"], "/trueup/user");
    assert_eq!(event["subject"], service["id"]);
    assert_eq!(event["time"], service["accepted_at"]);
    assert!(event["data"]["principal"].as_str().unwrap().starts_with("tok_"), "{event}");
    assert_eq!(event["principalname"], "the-owner", "the name is not part of the hashed data");
    assert_eq!(event["orgid"], front.db.org.to_string());
    assert_eq!(event["traceid"].as_str().map(str::len), Some(32));
    assert_eq!(event["hash"].as_str().map(str::len), Some(64));
    assert!(event.get("causeid").is_none(), "a user request has no cause");
}
