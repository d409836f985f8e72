//! Whether a namespace may be deleted: nothing in it may be somebody else's.
//!
//! Deleting a namespace deletes all that is in it, whoever made it, and there is no way back. So
//! everything in it is listed first, of every kind that the cluster serves, and this judges the list.

use std::collections::BTreeSet;

use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::Outcome;
use trueup_model::survey::{Contents, Item, Remains, Unread};

/// More than so many are only counted.
const NAMED: usize = 5;

/// A receipt names so many of what a forced end leaves behind, and counts the rest.
const KEPT: usize = 50;

/// What keeps the namespace of this project, or nothing if it may go.
///
/// What was not seen could be somebody's, so a kind that could not be listed keeps it as well.
#[must_use]
pub fn kept_by(order: &Order, contents: &Contents) -> Option<Outcome> {
    if !contents.unread.is_empty() {
        return Some(Outcome::Blocked { why: unseen(order, &contents.unread) });
    }
    let others: Vec<&Item> =
        contents.items.iter().filter(|item| !is_expected(order, item)).collect();
    let there: BTreeSet<&str> = contents.items.iter().map(|item| item.uid.as_str()).collect();
    // What belongs to something else in here goes with it, and is not named beside it.
    let roots = others.iter().filter(|item| !item.owners.iter().any(|uid| there.contains(&**uid)));
    let (going, staying): (Vec<&Item>, Vec<&Item>) =
        roots.copied().partition(|item| item.going || !item.owners.is_empty());
    if !staying.is_empty() {
        let names = named(staying.iter().map(|item| name(item)));
        return Some(Outcome::Blocked {
            why: format!(
                "Namespace/{} holds what is not the project's own: {names}; remove it or move it \
                 elsewhere, then this goes on by itself",
                order.namespace
            ),
        });
    }
    if !going.is_empty() {
        let names = named(going.iter().map(|item| held(item)));
        return Some(Outcome::Waiting { on: format!("{names} to be gone from its namespace") });
    }
    None
}

/// What a forced end leaves in the namespace beside what the project made and Kubernetes makes by itself.
#[must_use]
pub fn remains(order: &Order, contents: Contents) -> Remains {
    let Contents { mut items, mut unread, .. } = contents;
    items.retain(|item| !is_expected(order, item));
    items.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    let more = items.len().saturating_sub(KEPT);
    items.truncate(KEPT);
    unread.sort_by(|a, b| a.what.cmp(&b.what));
    unread.truncate(KEPT);
    Remains { objects: items, more, unread }
}

/// Made by the project, by its uid, or by Kubernetes itself: in every namespace, or as a shadow of
/// something that is named anyway.
fn is_expected(order: &Order, item: &Item) -> bool {
    let by_kubernetes = matches!(
        (item.kind.as_str(), item.name.as_str()),
        ("ConfigMap", "kube-root-ca.crt")
            | ("ServiceAccount", "default")
            | ("Event" | "Endpoints" | "PodMetrics", _)
    );
    let by_us = item.kind.parse::<Kind>().is_ok_and(|kind| {
        let key = ResourceKey::new(kind, &order.namespace, &item.name);
        order.recorded.get(&key).and_then(Option::as_deref) == Some(item.uid.as_str())
    });
    by_kubernetes || by_us
}

fn unseen(order: &Order, unread: &[Unread]) -> String {
    let told = named(unread.iter().map(|it| format!("{} ({})", it.what, it.why)));
    format!(
        "Namespace/{} is not deleted because not everything in it can be seen: {told}; mend or remove \
         what does not answer (`kubectl get apiservices`), or give Trueup the right to list it, then \
         this goes on by itself",
        order.namespace
    )
}

fn name(item: &Item) -> String {
    format!("{}/{}", item.kind, item.name)
}

fn held(item: &Item) -> String {
    match item.finalizers.as_slice() {
        [] => name(item),
        held => format!("{} (held by `{}`)", name(item), held.join("`, `")),
    }
}

/// The first few in order, and how many more there are.
fn named(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.collect();
    let more = names.len().saturating_sub(NAMED);
    let first = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
