//! Events as pages: the whole story in order, each once, however small the pages are.

use serde_json::{Value, json};

use crate::front::Front;

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
async fn nothing_is_shown_before_it_is_sealed() {
    let front = Front::with_web().await;
    assert_eq!(page(&front, "").await, json!({"items": [], "next": "0"}));
    front.seal().await;
    assert_eq!(sequences(&page(&front, "").await), ["1", "2"]);
}

#[tokio::test]
async fn pages_of_any_size_tell_the_same_story() {
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
async fn a_limit_out_of_range_is_brought_into_it() {
    let front = Front::with_web().await;
    front.seal().await;
    for (limit, count) in [("0", 1), ("-5", 1), ("1000000", 2)] {
        let page = page(&front, &format!("?limit={limit}")).await;
        assert_eq!(sequences(&page).len(), count, "{limit}");
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
    assert_eq!(event["data"]["principal"], "the-owner");
}
