//! What blocks the deletion of a namespace: foreign, terminating and unlisted objects.

use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::Outcome;
use trueup_model::survey::{Contents, Item, Remains, Unread};
use trueup_rules::plan::survey::{kept_by, remains};

use crate::given;

/// A project with a recorded uid for each object.
fn project() -> Order {
    let mut order = given::project_order();
    for (n, uid) in order.recorded.values_mut().enumerate() {
        *uid = Some(format!("ours-{n}"));
    }
    order
}

fn item(kind: &str, name: &str, uid: &str) -> Item {
    Item { kind: kind.to_owned(), name: name.to_owned(), uid: uid.to_owned(), ..Item::default() }
}

/// The project's own objects and what Kubernetes puts into every namespace.
fn expected_items(order: &Order) -> Vec<Item> {
    let own = order.recorded.iter().filter(|(key, _)| key.kind != Kind::Namespace);
    let own = own
        .map(|(key, uid)| item(key.kind.as_str(), &key.name, uid.as_deref().unwrap_or_default()));
    let made = [
        item("ConfigMap", "kube-root-ca.crt", "k-1"),
        item("ServiceAccount", "default", "k-2"),
        item("Event", "web.17f", "k-3"),
        item("Endpoints", "web", "k-4"),
    ];
    own.chain(made).collect()
}

fn with(order: &Order, more: Vec<Item>) -> Option<Outcome> {
    let items = expected_items(order).into_iter().chain(more).collect();
    kept_by(order, &Contents { items, ..Contents::default() })
}

fn blocked(outcome: Option<Outcome>) -> String {
    match outcome {
        Some(Outcome::Blocked { why }) => why,
        other => unreachable!("should be blocked: {other:?}"),
    }
}

#[test]
fn a_namespace_with_only_expected_objects_may_be_deleted() {
    let order = project();
    assert_eq!(with(&order, Vec::new()), None);
}

#[test]
fn foreign_objects_block_the_deletion_and_are_named() {
    let order = project();
    let why = blocked(with(&order, vec![item("Widget", "precious", "f-1")]));
    assert!(why.contains("Widget/precious;"), "{why}");
    let many = (0..8).map(|n| item("Widget", &format!("w{n}"), &format!("f-{n}"))).collect();
    let why = blocked(with(&order, many));
    assert!(why.contains("Widget/w4 and 3 more;"), "{why}");
}

#[test]
fn an_object_with_our_name_but_another_uid_is_foreign() {
    let order = project();
    let (key, _) = order.recorded.iter().find(|(key, _)| key.kind != Kind::Namespace).unwrap();
    let why = blocked(with(&order, vec![item(key.kind.as_str(), &key.name, "another")]));
    assert!(why.contains(&key.name), "{why}");
    let mut unseen = order.clone();
    unseen.recorded.values_mut().for_each(|uid| *uid = None);
    let kept = kept_by(&unseen, &Contents { items: expected_items(&order), ..Contents::default() });
    assert!(matches!(kept, Some(Outcome::Blocked { .. })), "without a recorded uid it is not ours");
}

#[test]
fn owned_objects_are_not_named_and_orphans_are_waited_for() {
    let order = project();
    let owned = |name: &str, by: &str| Item {
        owners: vec![by.to_owned()],
        ..item("Pod", name, &format!("uid of {name}"))
    };
    let theirs = item("Widget", "precious", "f-1");
    let why = blocked(with(&order, vec![theirs, owned("worker", "f-1")]));
    assert!(why.contains("Widget/precious;") && !why.contains("worker"), "{why}");
    let Some(Outcome::Waiting { on }) = with(&order, vec![owned("orphan", "gone")]) else {
        panic!("an orphan should be waited for")
    };
    assert!(on.contains("Pod/orphan"), "{on}");
}

#[test]
fn a_terminating_object_is_waited_for_with_its_finalizer() {
    let order = project();
    let held = Item {
        going: true,
        finalizers: vec!["example.com/hold".to_owned()],
        ..item("ConfigMap", "slow", "f-1")
    };
    let Some(Outcome::Waiting { on }) = with(&order, vec![held]) else { panic!("should wait") };
    assert!(on.contains("ConfigMap/slow (held by `example.com/hold`)"), "{on}");
}

#[test]
fn f43_an_unlisted_kind_blocks_the_deletion() {
    let order = project();
    let unread = vec![Unread {
        what: "metrics.example.com/v1beta1".to_owned(),
        why: "it does not answer".to_owned(),
    }];
    let contents = Contents { items: expected_items(&order), unread, ..Contents::default() };
    let why = blocked(kept_by(&order, &contents));
    assert!(why.contains("metrics.example.com/v1beta1 (it does not answer)"), "{why}");
}

#[test]
fn a_forced_deletion_names_foreign_objects_and_counts_the_rest() {
    let order = project();
    let mut items = expected_items(&order);
    items.extend((0..60).map(|n| item("Widget", &format!("w-{n:02}"), &format!("f-{n}"))));
    items.push(item("ConfigMap", "precious", "f-60"));
    let unread =
        vec![Unread { what: "metrics/v1".to_owned(), why: "it does not answer".to_owned() }];
    let left = remains(&order, Contents { items, unread: unread.clone(), ..Contents::default() });
    assert_eq!((left.objects.len(), left.more, left.count()), (50, 11, 61));
    let names: Vec<&str> = left.objects.iter().take(2).map(|item| &*item.name).collect();
    assert_eq!(names, ["precious", "w-00"], "sorted by kind and name, without expected objects");
    assert_eq!(left.unread, unread);
    let nothing = Contents { items: expected_items(&order), ..Contents::default() };
    assert_eq!(remains(&order, nothing), Remains::default());
}
