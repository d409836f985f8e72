//! Whether a namespace may be deleted: it must not contain foreign objects.
//!
//! Deleting a namespace deletes everything in it, and that cannot be undone. So its objects of
//! every kind that the cluster serves are listed first, and this module decides about the list.

use std::collections::BTreeSet;

use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::Outcome;
use trueup_model::survey::{Contents, Item, Remains, Unread};

/// How many objects a message names; the rest is counted.
const NAMED: usize = 5;

/// How many remaining objects the receipt of a forced deletion names; the rest is counted.
const KEPT: usize = 50;

/// What prevents the deletion of this project's namespace; `None` if it may be deleted.
///
/// A kind that could not be listed may have foreign objects, so it prevents the deletion as well.
#[must_use]
pub fn kept_by(order: &Order, contents: &Contents) -> Option<Outcome> {
    if !contents.unread.is_empty() {
        return Some(Outcome::Blocked { why: unlisted(order, &contents.unread) });
    }
    let others: Vec<&Item> =
        contents.items.iter().filter(|item| !is_expected(order, item)).collect();
    let there: BTreeSet<&str> = contents.items.iter().map(|item| item.uid.as_str()).collect();
    // An object whose owner is in the namespace is deleted with it and not named.
    let roots = others.iter().filter(|item| !item.owners.iter().any(|uid| there.contains(&**uid)));
    let (terminating, staying): (Vec<&Item>, Vec<&Item>) =
        roots.copied().partition(|item| item.going || !item.owners.is_empty());
    if !staying.is_empty() {
        let names = named(staying.iter().map(|item| name(item)));
        return Some(Outcome::Blocked {
            why: format!(
                "Namespace/{} contains foreign objects: {names}; remove or move them; the \
                 deletion then continues",
                order.namespace
            ),
        });
    }
    if !terminating.is_empty() {
        let names = named(terminating.iter().map(|item| with_finalizers(item)));
        return Some(Outcome::Waiting { on: format!("{names} to be gone from its namespace") });
    }
    None
}

/// What a forced deletion leaves behind in the namespace, without expected objects.
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

/// Whether the project created it, by uid, or Kubernetes itself: in every namespace, or derived
/// from another object.
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

fn unlisted(order: &Order, unread: &[Unread]) -> String {
    let kinds = named(unread.iter().map(|it| format!("{} ({})", it.what, it.why)));
    format!(
        "Namespace/{} is not deleted because some kinds could not be listed: {kinds}; fix or \
         remove APIs that do not answer (`kubectl get apiservices`), or let Trueup list these \
         kinds; the deletion then continues",
        order.namespace
    )
}

fn name(item: &Item) -> String {
    format!("{}/{}", item.kind, item.name)
}

fn with_finalizers(item: &Item) -> String {
    match item.finalizers.as_slice() {
        [] => name(item),
        finalizers => format!("{} (held by `{}`)", name(item), finalizers.join("`, `")),
    }
}

/// The first few in order, and how many more there are.
fn named(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.collect();
    let more = names.len().saturating_sub(NAMED);
    let first = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
