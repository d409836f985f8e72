//! Lists of services: pages, filters, and cursors that are valid for one org.

use std::io::Read as _;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::front::{Front, STRANGER, web};

async fn with_services(names: &[&str]) -> Front {
    let front = Front::new().await;
    for name in names {
        let path = format!("/v1/projects/shop/services/{name}");
        let made = front.put(&path).json(&web("nginx:1")).send().await;
        assert_eq!(made.status, StatusCode::ACCEPTED, "{}", made.text());
    }
    front
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_cover_the_whole_list() {
    let front = with_services(&["c", "a", "b", "d", "e"]).await;
    let (mut seen, mut path) = (Vec::new(), "/v1/services?limit=2".to_owned());
    loop {
        let page = front.get(&path).send().await.json();
        seen.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/services?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let exact = front.get("/v1/services?limit=5").send().await.json();
    assert_eq!(exact["next"], Value::Null, "a full last page has no `next`");
}

/// A list is compressed for clients that accept it; a resource with an `ETag` is not.
#[tokio::test]
async fn long_lists_are_compressed_for_clients_that_accept_it() {
    let names: Vec<String> = (0..9).map(|n| format!("web-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let front = with_services(&names).await;
    let plain = front.get("/v1/services").send().await;
    assert_eq!(plain.headers.get("content-encoding"), None);
    assert_eq!(plain.headers["vary"], "accept-encoding");
    let packed = front.get("/v1/services").header("accept-encoding", "gzip, br").send().await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() * 3 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed.body).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.text());
    let tagged = "/v1/projects/shop/services/web-1";
    let one = front.get(tagged).header("accept-encoding", "gzip").send().await;
    assert!(one.headers.contains_key("etag") && !one.headers.contains_key("content-encoding"));
}

/// S14: a cursor of another org, a forged one and an empty one are refused.
#[tokio::test]
async fn foreign_or_forged_cursor_is_refused() {
    let front = with_services(&["a", "b"]).await;
    let page = front.get("/v1/services?limit=1").send().await.json();
    let cursor = page["next"].as_str().unwrap().to_owned();
    let path = format!("/v1/services?cursor={cursor}");
    front.get(&path).token(STRANGER).send().await.must_be(400, "TU1103");
    for forged in ["", "x", "e30", &cursor[1..], "%00"] {
        let path = format!("/v1/services?cursor={forged}");
        front.get(&path).send().await.must_be(400, "TU1103");
    }
}

#[tokio::test]
async fn filters_select_services_and_reject_invalid_values() {
    let front = with_services(&["web", "web-two", "api"]).await;
    let listed = async |query: &str| {
        let reply = front.get(&format!("/v1/services?{query}")).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{query}: {}", reply.text());
        names(&reply.json())
    };
    assert_eq!(listed("search=WEB").await, ["web", "web-two"]);
    assert_eq!(listed("search=%25").await, Vec::<String>::new());
    assert_eq!(listed("phase=accepted&plan=small").await, ["api", "web", "web-two"]);
    assert_eq!(listed("health=healthy").await, Vec::<String>::new());
    assert_eq!(listed("template=web&project=shop&desired=active&limit=1").await, ["api"]);
    for bad in ["limit=0", "limit=1001", "limit=x", "phase=odd", "health=", "colour=red", "search="]
    {
        front.get(&format!("/v1/services?{bad}")).send().await.must_be(400, "TU1103");
    }
    front.get("/v1/services?project=nowhere").send().await.must_be(404, "TU1003");
    front.get("/v1/services?plan=No%20Name").send().await.must_be(422, "TU1201");
    let one = json!({"items": []});
    assert_eq!(front.get("/v1/services").token(STRANGER).send().await.json(), one);
}

#[tokio::test]
async fn orders_are_kept_over_pages_and_a_cursor_is_for_its_order_only() {
    let front = Front::new().await;
    for name in ["b", "c", "a"] {
        let path = format!("/v1/projects/shop/services/{name}");
        front.put(&path).json(&web("nginx:1")).send().await;
        front.clock.advance(Duration::from_secs(1));
    }
    for (sort, expected) in [
        ("name", ["a", "b", "c"]),
        ("-name", ["c", "b", "a"]),
        ("created", ["b", "c", "a"]),
        ("-created", ["a", "c", "b"]),
        ("-changed", ["a", "c", "b"]),
    ] {
        let (mut seen, mut path) = (Vec::new(), format!("/v1/services?limit=1&sort={sort}"));
        loop {
            let page = front.get(&path).send().await.json();
            seen.extend(names(&page));
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/v1/services?limit=1&sort={sort}&cursor={next}");
        }
        assert_eq!(seen, expected, "{sort}");
    }
    let page = front.get("/v1/services?limit=1&sort=created").send().await.json();
    let other = format!("/v1/services?cursor={}", page["next"].as_str().unwrap());
    front.get(&other).send().await.must_be(400, "TU1103");
}

#[tokio::test]
async fn total_counts_all_pages_of_what_matches() {
    let front = with_services(&["web", "web-two", "api"]).await;
    let total = async |query: &str| {
        let reply = front.get(&format!("/v1/services?{query}")).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{query}: {}", reply.text());
        reply.json()["total"].clone()
    };
    assert_eq!(total("limit=1").await, Value::Null);
    assert_eq!(total("limit=1&count=true").await, 3);
    assert_eq!(total("limit=1&count=true&search=web").await, 2);
    assert_eq!(total("count=true&reconciliation=pending&cluster=test").await, 3);
    assert_eq!(total("count=true&reconciliation=settled").await, 0);
    let web = front.get("/v1/projects/shop/services/web").send().await.json();
    let one = format!("count=true&ids={}", web["id"].as_str().unwrap());
    assert_eq!(total(&one).await, 1);
    for bad in ["ids=", "ids=web", "reconciliation=odd", "sort=odd", "count=odd"] {
        front.get(&format!("/v1/services?{bad}")).send().await.must_be(400, "TU1103");
    }
    front.get("/v1/services?cluster=nowhere").send().await.must_be(404, "TU1003");
}
