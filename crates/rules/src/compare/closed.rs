//! Closed paths: fields that only Trueup may write.
//!
//! Server-side apply keeps fields of other managers, so a container, a variable or a rule that
//! another writer adds would stay. This module finds such additions and builds the patch that
//! removes them. Fields that we state are compared by [`diff`](crate::compare::diff), also where we
//! state a default of the server (`render::stated`). All other fields are open: labels of others,
//! tolerations, the replicas of an autoscaler. See `docs/adr/0019-closed-paths.md`.

mod patch;
mod table;

use serde_json::Value;
use trueup_model::key::Kind;

use crate::compare::diff::is_empty;
use crate::compare::path::{Path, PathSegment};
use crate::compare::{injector, owner};

pub(crate) use table::OWN_PREFIX;

/// What is closed at a path.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Only these fields are closed, each by its own rule.
    Fields(Fields),
    /// A list with these merge keys. Foreign entries are not allowed; in ours, these fields are
    /// closed.
    Entries(&'static [&'static str], Fields),
    /// Nothing but the desired value, recursively.
    Exact,
    /// Must be absent unless we set it. If we set it, others may add to it.
    Unsaid,
    /// Must be absent unless we set it. If we set it, ours replaces it where others added to it.
    Whole,
    /// If present, must have this number unless we set it.
    Number(i64),
    /// A map in which names with these prefixes are ours.
    Prefixes(&'static [&'static str]),
}

type Fields = &'static [(&'static str, Rule)];

/// A foreign value at a closed path.
#[derive(Debug)]
pub(crate) struct Foreign<'a> {
    /// The path of the field.
    pub(crate) field: String,
    /// The foreign value.
    pub(crate) live: &'a Value,
    /// The field manager, if the server recorded one.
    pub(crate) by: Option<String>,
    steps: Vec<PathSegment<'a>>,
    fix: Fix,
}

impl Foreign<'_> {
    /// The desired value; null for none.
    pub(crate) fn wanted(&self) -> &Value {
        match &self.fix {
            Fix::Set(Some(value)) => value,
            Fix::Set(None) | Fix::Drop(_) => NOTHING,
        }
    }
}

/// The foreign values of an object, and how to remove them.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    live: &'a Value,
    /// Parents come before what is inside of them.
    all: Vec<Foreign<'a>>,
}

/// What to do at a path.
#[derive(Debug, Clone)]
enum Fix {
    /// Set it, or remove it.
    Set(Option<Value>),
    /// Drop this entry from its list, and add our entries that the list lacks: some lists may not
    /// be empty, and names in them must be unique.
    Drop(Vec<Value>),
}

/// Finds all foreign values at the closed paths of an object.
pub(crate) fn foreign<'a>(kind: Kind, wanted: &'a Value, live: &'a Value) -> Found<'a> {
    let mut found = Found { live, all: Vec::new() };
    let mut path = Path::default();
    for fields in [table::EVERY, table::of(kind)] {
        walk_fields(fields, wanted, live, &mut path, &mut found);
    }
    found
}

impl<'a> Found<'a> {
    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Leaves those alone for which this is false.
    pub(crate) fn retain(&mut self, removed: impl FnMut(&Foreign<'a>) -> bool) {
        self.all.retain(removed);
    }

    fn add(&mut self, path: &Path<'a>, live: &'a Value, fix: Fix) {
        let (field, by) = (path.to_string(), owner::of(self.live, path));
        self.all.push(Foreign { field, live, by, steps: path.0.clone(), fix });
    }
}

const NOTHING: &Value = &Value::Null;

fn walk_fields<'a>(
    fields: Fields,
    wanted: &'a Value,
    live: &'a Value,
    path: &mut Path<'a>,
    found: &mut Found<'a>,
) {
    for (name, rule) in fields {
        if let Some(below) = live.get(name) {
            let wanted = wanted.get(name).unwrap_or(NOTHING);
            path.inside(PathSegment::Field(name), |path| walk(*rule, wanted, below, path, found));
        }
    }
}

fn walk<'a>(
    rule: Rule,
    wanted: &'a Value,
    live: &'a Value,
    path: &mut Path<'a>,
    found: &mut Found<'a>,
) {
    match rule {
        Rule::Fields(fields) => walk_fields(fields, wanted, live, path, found),
        Rule::Entries(known_by, inside) => {
            let list = Entries { known_by, inside, wanted: entries(wanted), live: entries(live) };
            walk_entries(&list, path, found);
        }
        Rule::Exact => walk_exact(wanted, live, path, found),
        Rule::Unsaid => {
            // For many fields, false means unset.
            if wanted.is_null() && !is_empty(live) && *live != Value::Bool(false) {
                found.add(path, live, Fix::Set(None));
            }
        }
        Rule::Whole => {
            if !has_no_more(wanted, live) {
                found.add(path, live, Fix::Set((!wanted.is_null()).then(|| wanted.clone())));
            }
        }
        Rule::Number(default) => {
            if wanted.is_null() && *live != default {
                found.add(path, live, Fix::Set(Some(default.into())));
            }
        }
        Rule::Prefixes(prefixes) => {
            for (name, theirs) in live.as_object().into_iter().flatten() {
                let ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
                if ours && !table::STAMPS.contains(&name.as_str()) && wanted.get(name).is_none() {
                    path.inside(PathSegment::Field(name), |path| {
                        found.add(path, theirs, Fix::Set(None));
                    });
                }
            }
        }
    }
}

/// Everything below must be ours. A list is compared entry by entry and replaced as a whole.
fn walk_exact<'a>(wanted: &'a Value, live: &'a Value, path: &mut Path<'a>, found: &mut Found<'a>) {
    match (wanted, live) {
        (_, live) if is_empty(live) => {}
        (Value::Null, _) => found.add(path, live, Fix::Set(None)),
        (Value::Object(wanted), Value::Object(live)) => {
            for (name, below) in live {
                let wanted = wanted.get(name).unwrap_or(NOTHING);
                path.inside(PathSegment::Field(name), |path| {
                    walk_exact(wanted, below, path, found)
                });
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            let alike = ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| has_no_more(ours, theirs));
            if !alike {
                found.add(path, live, Fix::Set(Some(wanted.clone())));
            }
        }
        // Differing values are found by `diff`.
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _)
        | (Value::Object(_) | Value::Array(_), _) => {}
    }
}

/// Whether a value has no field that ours lacks.
fn has_no_more(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (ours, theirs) if ours.is_null() => is_empty(theirs),
        (Value::Object(ours), Value::Object(theirs)) => {
            theirs.iter().all(|(name, value)| has_no_more(ours.get(name).unwrap_or(NOTHING), value))
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| has_no_more(ours, theirs))
        }
        _ => true,
    }
}

/// A list with merge keys, desired and live.
struct Entries<'a> {
    known_by: &'static [&'static str],
    inside: Fields,
    wanted: &'a [Value],
    live: &'a [Value],
}

impl Entries<'_> {
    fn same(&self, one: &Value, other: &Value) -> bool {
        self.known_by.iter().all(|name| known(one, name) == known(other, name))
    }
}

fn walk_entries<'a>(list: &Entries<'a>, path: &mut Path<'a>, found: &mut Found<'a>) {
    let ours = |entry: &Value| list.wanted.iter().find(|other| list.same(other, entry));
    let lacks = |one: &&Value| !list.live.iter().any(|other| list.same(one, other));
    for (place, entry) in list.live.iter().enumerate() {
        if ours(entry).is_none() && !injector::allows(found.live, path, entry) {
            let missing = list.wanted.iter().filter(lacks).cloned().collect();
            path.inside(PathSegment::Entry(place, entry), |path| {
                found.add(path, entry, Fix::Drop(missing));
            });
        }
    }
    for (place, entry) in list.live.iter().enumerate() {
        if let Some(ours) = ours(entry) {
            path.inside(PathSegment::Entry(place, entry), |path| {
                walk_fields(list.inside, ours, entry, path, found);
            });
        }
    }
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The value of a merge key; the protocol defaults to TCP.
fn known(entry: &Value, name: &str) -> Value {
    match entry.get(name) {
        None if name == "protocol" => "TCP".into(),
        found => found.cloned().unwrap_or_default(),
    }
}
