//! Closed paths: places where nothing may stand but what we said.
//!
//! Server-side apply leaves alone what another manager owns, so a container, a variable or a rule
//! that somebody adds would stay for ever beside ours. Here such additions are found and the patch
//! that takes them out is made. Everything else of an object is open: fields that the server fills
//! in, labels of others, what an autoscaler says. See `docs/adr/0019-closed-paths.md`.

mod table;

use serde_json::{Map, Value};
use trueup_model::key::Kind;

use crate::compare::diff::is_empty;
use crate::compare::path::{Path, PathSegment};
use crate::compare::{injector, owner};

/// What is closed about a place.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Only some of its fields are closed, each in its way.
    Fields(Fields),
    /// A list whose entries are known by these fields. Foreign entries are not allowed; in ours,
    /// these fields are closed.
    Entries(&'static [&'static str], Fields),
    /// Nothing but what we said, all the way down.
    Exact,
    /// If we say nothing here, nothing may be here. What we say may be added to.
    Unsaid,
    /// If we say nothing here, it is this.
    Else(&'static str),
    /// A map in which the names that begin like this are ours.
    Prefixes(&'static [&'static str]),
}

type Fields = &'static [(&'static str, Rule)];

/// Something foreign in a closed place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Where.
    pub(crate) field: String,
    /// Who put it there, if the server knows.
    pub(crate) by: Option<String>,
}

/// What was found in an object, and how to take it out.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    live: &'a Value,
    /// What stands around an entry is before what stands in it.
    all: Vec<(Foreign, Vec<PathSegment<'a>>, Mend)>,
}

/// What to do at a place.
#[derive(Debug, Clone)]
enum Mend {
    /// Set it, or take it away.
    Set(Option<Value>),
    /// Drop the entry there from its list, and add those of ours that the list lacks: some lists may
    /// never be empty, and a name in them may not be there twice.
    Drop(Vec<Value>),
}

/// Everything foreign in the closed places of an object.
pub(crate) fn foreign<'a>(kind: Kind, wanted: &'a Value, live: &'a Value) -> Found<'a> {
    let mut found = Found { live, all: Vec::new() };
    let mut path = Path::default();
    for fields in [table::EVERY, table::of(kind)] {
        walk_fields(fields, wanted, live, &mut path, &mut found);
    }
    found
}

impl<'a> Found<'a> {
    /// The first of it, for people.
    pub(crate) fn first(&self) -> Option<&Foreign> {
        self.all.first().map(|(foreign, ..)| foreign)
    }

    /// Only what another manager is known to have written. While an older generation of ours stands
    /// there, what is not wanted any more may be our own, and the next apply takes it away.
    pub(crate) fn by_others(mut self) -> Self {
        self.all.retain(|(foreign, ..)| foreign.by.is_some());
        self
    }

    /// A merge patch that takes all of it out, for exactly the version that was judged.
    pub(crate) fn patch(&self) -> Value {
        let mut mended = self.live.clone();
        // Backwards: what is in an entry before the entries around it, the last entry first, so that
        // places in lists mean the same all the time.
        for (_, steps, mend) in self.all.iter().rev() {
            apply(&mut mended, steps, mend);
        }
        let mut patch = merge_patch(self.live, &mended);
        for guard in ["uid", "resourceVersion"] {
            patch["metadata"][guard] = self.live["metadata"][guard].clone();
        }
        patch
    }

    fn add(&mut self, path: &Path<'a>, mend: Mend) {
        let foreign = Foreign { field: path.to_string(), by: owner::of(self.live, path) };
        self.all.push((foreign, path.0.clone(), mend));
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
            // False is how many a field says nothing.
            if wanted.is_null() && !is_empty(live) && *live != Value::Bool(false) {
                found.add(path, Mend::Set(None));
            }
        }
        Rule::Else(default) => {
            if wanted.is_null() && live != default {
                found.add(path, Mend::Set(Some(default.into())));
            }
        }
        Rule::Prefixes(prefixes) => {
            for name in live.as_object().into_iter().flat_map(Map::keys) {
                let ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
                if ours && !table::STAMPS.contains(&name.as_str()) && wanted.get(name).is_none() {
                    path.inside(PathSegment::Field(name), |path| found.add(path, Mend::Set(None)));
                }
            }
        }
    }
}

/// Everything below must be ours. A list is compared entry by entry, and put right as a whole.
fn walk_exact<'a>(wanted: &'a Value, live: &'a Value, path: &mut Path<'a>, found: &mut Found<'a>) {
    match (wanted, live) {
        (_, live) if is_empty(live) => {}
        (Value::Null, _) => found.add(path, Mend::Set(None)),
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
                found.add(path, Mend::Set(Some(wanted.clone())));
            }
        }
        // That a value differs is found by comparing.
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

/// A list by name, as it shall be and as it is.
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
                found.add(path, Mend::Drop(missing))
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

/// What an entry is known by; a protocol that is not named is TCP.
fn known(entry: &Value, name: &str) -> Value {
    match entry.get(name) {
        None if name == "protocol" => "TCP".into(),
        found => found.cloned().unwrap_or_default(),
    }
}

fn apply(object: &mut Value, steps: &[PathSegment<'_>], mend: &Mend) {
    let Some((last, way)) = steps.split_last() else { return };
    let parent = way.iter().try_fold(&mut *object, |value, step| match step {
        PathSegment::Field(name) => value.get_mut(*name),
        PathSegment::Entry(place, _) => value.get_mut(*place),
    });
    match (parent, last, mend) {
        (Some(Value::Object(map)), PathSegment::Field(name), Mend::Set(Some(value))) => {
            map.insert((*name).to_owned(), value.clone());
        }
        (Some(Value::Object(map)), PathSegment::Field(name), Mend::Set(None)) => {
            map.remove(*name);
        }
        (Some(Value::Array(list)), PathSegment::Entry(place, _), Mend::Drop(missing))
            if *place < list.len() =>
        {
            list.remove(*place);
            let lacking: Vec<Value> =
                missing.iter().filter(|one| !list.contains(one)).cloned().collect();
            list.extend(lacking);
            if list.is_empty() {
                apply(object, way, &Mend::Set(None));
            }
        }
        _ => {}
    }
}

/// The merge patch (RFC 7386) that turns one value into the other.
fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name, Value::Null));
    let changed = to
        .iter()
        .filter(|(name, value)| from.get(*name) != Some(value))
        .map(|(name, value)| (name, merge_patch(from.get(name).unwrap_or(NOTHING), value)));
    Value::Object(gone.chain(changed).map(|(name, value)| (name.clone(), value)).collect())
}
