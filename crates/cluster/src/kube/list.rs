//! Lists of objects, page by page.
//!
//! A list of versions covers tens of thousands of objects, over and over. So it keeps only what a
//! comparison and the sweep read of each: a tree of all metadata takes almost twice the memory, and
//! the `managedFields` in it several times that while a page is read.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};
use trueup_model::key::Kind;
use trueup_rules::render::names;

use super::address::Address;
use super::call::{Content, Reply};
use super::{Kube, PAGE, answer};
use crate::verbs::{CallError, List};

/// The labels of a version list: those that name the unit of an object.
const LABELS: [&str; 2] = [names::SERVICE_LABEL, names::PROJECT_LABEL];
/// The annotations of a version list.
const ANNOTATIONS: [&str; 1] = [names::PROOF_ANNOTATION];

/// How much of each object a list keeps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Detail {
    /// The whole object.
    Whole,
    /// Key, uid and version, and the labels and the proof that name its unit.
    Versions,
}

impl Detail {
    const fn content(self) -> Content<'static> {
        match self {
            Self::Whole => Content::Nothing,
            Self::Versions => Content::MetadataOnly,
        }
    }

    fn page(self, reply: Reply, kind: Kind) -> Result<Page, CallError> {
        match self {
            Self::Whole => whole_page(reply, kind),
            Self::Versions => version_page(&reply, kind),
        }
    }
}

/// One page of a list.
struct Page {
    objects: Vec<Value>,
    version: String,
    /// Where the next page begins; empty after the last one.
    next: String,
}

impl Kube {
    /// Lists all objects of a kind at this address.
    pub(super) async fn list_all(
        &self,
        kind: Kind,
        address: Address,
        detail: Detail,
    ) -> Result<List, CallError> {
        match self.pages(kind, &address, detail).await {
            // The continue token expired during the list; retry once.
            Err(CallError::Expired) => self.pages(kind, &address, detail).await,
            outcome => outcome,
        }
    }

    /// Reads all pages; they all have the version of the first.
    async fn pages(
        &self,
        kind: Kind,
        address: &Address,
        detail: Detail,
    ) -> Result<List, CallError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let mut address = address.clone().with("limit", PAGE);
            if !next.is_empty() {
                address = address.with("continue", &next);
            }
            // The watcher has no access to secrets.
            let client = if Kind::READ.contains(&kind) { &self.client } else { &self.watcher };
            let reply = self.send_as(client, Method::GET, address, detail.content()).await?;
            let page = detail.page(reply, kind)?;
            objects.extend(page.objects);
            next = page.next;
            if next.is_empty() {
                return Ok(List { objects, version: page.version });
            }
        }
    }
}

fn whole_page(reply: Reply, kind: Kind) -> Result<Page, CallError> {
    let mut page = reply.into_object(kind)?;
    Ok(Page {
        objects: answer::take_items(&mut page, kind),
        version: answer::text(&page, "/metadata/resourceVersion"),
        next: answer::text(&page, "/metadata/continue"),
    })
}

fn version_page(reply: &Reply, kind: Kind) -> Result<Page, CallError> {
    let VersionPage { metadata, items } = reply.parsed(kind)?;
    Ok(Page {
        objects: items.unwrap_or_default().into_iter().map(|item| item.metadata.kept()).collect(),
        version: metadata.resource_version,
        next: metadata.next,
    })
}

/// A page of a version list. Fields that are not named here are skipped by the parser.
#[derive(Deserialize)]
struct VersionPage {
    #[serde(default)]
    metadata: Position,
    /// The server writes an empty list as null.
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Position {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// An object with what is kept of its metadata.
    fn kept(self) -> Value {
        let texts = [
            ("namespace", self.namespace),
            ("name", self.name),
            ("uid", self.uid),
            ("resourceVersion", self.resource_version),
        ];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let maps = [
            ("labels", only(self.labels, &LABELS)),
            ("annotations", only(self.annotations, &ANNOTATIONS)),
        ];
        let maps = maps.into_iter().filter(|(_, map)| !map.is_empty());
        let metadata: Map<String, Value> = texts
            .map(|(name, text)| (name.to_owned(), Value::String(text)))
            .chain(maps.map(|(name, map)| (name.to_owned(), Value::Object(map))))
            .collect();
        let mut object = Map::new();
        object.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(object)
    }
}

/// The entries with these names.
fn only(entries: BTreeMap<String, String>, names: &[&str]) -> Map<String, Value> {
    let kept = entries.into_iter().filter(|(name, _)| names.contains(&name.as_str()));
    kept.map(|(name, value)| (name, Value::String(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stub::answered_with;
    use super::*;
    use crate::verbs::Cluster;

    async fn versions(body: &Value) -> Result<List, CallError> {
        let body = body.to_string();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        answered_with(&response, async |kube| kube.versions(Kind::ConfigMap).await).await
    }

    #[tokio::test]
    async fn version_list_keeps_only_what_is_compared_and_swept() {
        let labels = json!({ names::SERVICE_LABEL: "svc_1", "app": "web" });
        let item = json!({ "kind": "PartialObjectMetadata", "metadata": {
            "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2030-01-01T00:00:00Z", "labels": labels,
            "annotations": { names::PROOF_ANNOTATION: "a \"proof\"", "note": "long" },
            "ownerReferences": [{ "kind": "ConfigMap", "name": "anchor", "uid": "a" }],
            "managedFields": [{ "manager": "trueup", "fieldsV1": { "f:data": {} } }],
        } });
        let bare = json!({ "metadata": { "name": "bare", "resourceVersion": "8" } });
        let page = json!({ "metadata": { "resourceVersion": "9" }, "items": [item, bare] });
        let kept = json!({ "metadata": {
            "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
            "labels": { names::SERVICE_LABEL: "svc_1" },
            "annotations": { names::PROOF_ANNOTATION: "a \"proof\"" },
        } });
        let expected = List { objects: vec![kept, bare], version: "9".to_owned() };
        assert_eq!(versions(&page).await, Ok(expected));
    }

    #[tokio::test]
    async fn version_list_without_items_is_empty() {
        for items in [json!(null), json!([])] {
            let page = json!({ "metadata": { "resourceVersion": "9" }, "items": items });
            let expected = List { objects: Vec::new(), version: "9".to_owned() };
            assert_eq!(versions(&page).await, Ok(expected), "{items}");
        }
    }
}
