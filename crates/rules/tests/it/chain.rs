//! The hash chain over events: as documented, and sensitive to any change.

use serde_json::{Value, json};
use trueup_model::OrgId;
use trueup_rules::event::chain::{Break, Content, Hash, ParseHashError, Walk, link};

fn org() -> OrgId {
    "org_01h455vb4pex5vsknk084sn02q".parse().expect("this should be an id")
}

fn content(data: &Value) -> Content<'_> {
    Content {
        id: "evt_01h455vb4pex5vsknk084sn02q",
        source: "/trueup/user",
        kind: "dev.trueup.ServiceQueued.v1",
        subject: "svc_01h455vb4pex5vsknk084sn02q",
        generation: 3,
        time: "2026-01-02T03:04:05.000006Z".parse().expect("this should be a time"),
        trace: Some("0af7651916cd43dd8448eb211c80319c"),
        cause: None,
        data,
    }
}

/// Computed with Python's hashlib, from the description in the guide.
#[test]
fn the_hash_matches_the_guide() {
    let data = json!({"type": "ServiceQueued", "deletes": false, "principal": "grüße\n\""});
    let hash = link(&Hash::START, org(), 1, &content(&data));
    assert_eq!(
        hash.to_string(),
        "c60d604ae6f6dc9e5ee12acb17bb9526e2fc4b3dc5e54557b85a0eeb537002b0"
    );
    assert_eq!(hash.to_string().parse(), Ok(hash));
}

#[test]
fn the_hash_covers_every_shown_field() {
    let (data, other) = (json!({"a": 1}), json!({"a": 2}));
    let base = content(&data);
    let link_of = |event: &Content<'_>| link(&Hash::START, org(), 1, event);
    let twists = [
        Content { id: "evt_2", ..base },
        Content { source: "/trueup/system", ..base },
        Content { kind: "dev.trueup.ServiceQueued.v2", ..base },
        Content { subject: "prj_1", ..base },
        Content { generation: 4, ..base },
        Content { time: "2026-01-02T03:04:05.000007Z".parse().unwrap(), ..base },
        Content { trace: None, ..base },
        Content { trace: Some(""), ..base },
        Content { cause: Some("evt_1"), ..base },
        Content { data: &other, ..base },
    ];
    let mut seen = vec![link_of(&base)];
    for twist in &twists {
        let hash = link_of(twist);
        assert!(!seen.contains(&hash), "{twist:?}");
        seen.push(hash);
    }
    let elsewhere = [
        link(&seen[0], org(), 1, &base),
        link(&Hash::START, org(), 2, &base),
        link(&Hash::START, OrgId::from_uuid(uuid::Uuid::from_u128(7)), 1, &base),
    ];
    assert!(elsewhere.iter().all(|hash| !seen.contains(hash)));
}

#[test]
fn shifted_field_boundaries_change_the_hash() {
    let data = json!({});
    let one = Content { id: "a", source: "b,1:c", ..content(&data) };
    let other = Content { id: "a,5:b", source: "c", ..content(&data) };
    let link_of = |event: &Content<'_>| link(&Hash::START, org(), 1, event);
    assert_ne!(link_of(&one), link_of(&other));
}

#[test]
fn the_order_of_keys_does_not_matter_and_that_of_items_does() {
    let hash = |json: &str| {
        let data: Value = serde_json::from_str(json).unwrap();
        link(&Hash::START, org(), 1, &content(&data))
    };
    assert_eq!(
        hash(r#"{ "b" : [1, {"z":null,"y":true}], "a": "x" }"#),
        hash(r#"{"a":"x","b":[1,{"y":true,"z":null}]}"#)
    );
    assert_ne!(hash("[1,2]"), hash("[2,1]"));
    assert_ne!(hash(r#"{"a":"1"}"#), hash(r#"{"a":1}"#));
}

#[test]
fn a_walk_names_the_first_position_that_is_wrong() {
    let bodies: Vec<Value> = (1..=4).map(|number| json!({"number": number})).collect();
    let mut hashes = Vec::new();
    let mut head = Hash::START;
    for (position, body) in (1..).zip(&bodies) {
        head = link(&head, org(), position, &content(body));
        hashes.push(head.to_string());
    }
    let walk = |events: &[(i64, usize, usize)]| {
        let mut walk = Walk::new(org());
        for (position, hash, body) in events {
            walk.step(*position, &hashes[*hash], &content(&bodies[*body]))?;
        }
        Ok::<_, Break>(walk)
    };
    let whole = walk(&[(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 3, 3)]).unwrap();
    assert_eq!((whole.position(), whole.head()), (4, head));
    for (events, position, word) in [
        (vec![(1, 0, 0), (2, 1, 2)], 2, "changed"),
        (vec![(1, 0, 0), (3, 2, 2)], 2, "missing"),
        (vec![(1, 0, 0), (2, 2, 2), (3, 1, 1)], 2, "moved"),
        (vec![(2, 1, 1)], 1, "missing"),
        (vec![(1, 0, 0), (1, 0, 0)], 2, "again"),
    ] {
        let found = walk(&events).unwrap_err();
        assert_eq!(found.position, position, "{events:?}");
        assert!(found.why.contains(word), "{}", found.why);
    }
}

#[test]
fn an_invalid_hash_is_refused() {
    for text in ["", "abc", &"0".repeat(63), &"G".repeat(64), &"A".repeat(64)] {
        assert_eq!(text.parse::<Hash>(), Err(ParseHashError), "{text}");
    }
}
