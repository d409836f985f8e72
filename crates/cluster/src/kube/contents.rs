//! Lists everything in a namespace, of every kind, before the namespace is deleted.
//!
//! The kinds come from discovery. An API group that is unavailable and a kind that we may not list
//! are reported as unread, because they could hold foreign objects. The same permission allows
//! reading the events of single objects.

use futures::{StreamExt, stream};
use http::Method;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::{Contents, Item, Unread};

use super::address::Address;
use super::answer::text;
use super::call::Content;
use super::{Kube, PAGE};
use crate::verbs::CallError;

/// How many lists run at once.
const WIDTH: usize = 8;

/// A kind that has objects in namespaces and can be listed.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    root: String,
    plural: String,
    kind: String,
    group: String,
}

impl Listed {
    /// Kind and group, as in `Deployment.apps`.
    fn name(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }
}

impl Kube {
    pub(super) async fn survey(&self, namespace: &str) -> Result<Contents, CallError> {
        let (mut kinds, mut unread) = (Vec::new(), Vec::new());
        for root in ["/api", "/apis"] {
            let reply = self.send(Method::GET, Address::root(root), Content::Discovery).await?;
            discover(root, &reply.into_object(Kind::Namespace)?, &mut kinds, &mut unread)?;
        }
        let lists = stream::iter(kinds).map(|kind| async move {
            let items = self.items(namespace, &kind).await;
            (kind, items)
        });
        let lists: Vec<_> = lists.buffer_unordered(WIDTH).collect().await;
        let mut contents = Contents { unread, ..Contents::default() };
        for (kind, items) in lists {
            match items {
                Ok(items) => {
                    contents.kinds.insert(kind.name());
                    contents.items.extend(items);
                }
                Err(error @ (CallError::Unreachable(_) | CallError::Throttled { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    contents.unread.push(Unread { what: kind.name(), why: error.to_string() });
                }
            }
        }
        Ok(contents)
    }

    async fn items(&self, namespace: &str, of: &Listed) -> Result<Vec<Item>, CallError> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let mut address = Address::within(&of.root, namespace, &of.plural)?.with("limit", PAGE);
            if !next.is_empty() {
                address = address.with("continue", &next);
            }
            // Metadata only: the values of secrets are not read.
            let reply = self.send(Method::GET, address, Content::MetadataOnly).await?;
            let page = reply.into_object(Kind::Namespace)?;
            let found = page["items"].as_array().into_iter().flatten();
            items.extend(found.map(|object| item(&of.kind, object)));
            next = text(&page, "/metadata/continue");
            if next.is_empty() {
                return Ok(items);
            }
        }
    }
}

impl Kube {
    /// The Warning events of the object with this uid.
    pub(super) async fn list_warnings(
        &self,
        key: &ResourceKey,
        uid: &str,
    ) -> Result<Vec<Value>, CallError> {
        let select = format!("involvedObject.uid={uid},type=Warning");
        let address = Address::within("/api/v1", &key.namespace, "events")?;
        let address = address.with("fieldSelector", &select).with("limit", PAGE);
        let reply = self.send(Method::GET, address, Content::Nothing).await?;
        match reply.into_object(Kind::Namespace)?["items"].take() {
            Value::Array(events) => Ok(events),
            _ => Ok(Vec::new()),
        }
    }
}

fn item(kind: &str, object: &Value) -> Item {
    let metadata = &object["metadata"];
    let strings = |value: &Value, name: &str| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        let field = |it: &Value| if name.is_empty() { it.clone() } else { it[name].clone() };
        all.filter_map(|it| field(it).as_str().map(str::to_owned)).collect()
    };
    Item {
        kind: kind.to_owned(),
        name: text(object, "/metadata/name"),
        uid: text(object, "/metadata/uid"),
        owners: strings(&metadata["ownerReferences"], "uid"),
        finalizers: strings(&metadata["finalizers"], ""),
        going: !metadata["deletionTimestamp"].is_null(),
    }
}

/// Adds the kinds of one discovery document. Any other document is an error.
fn discover(
    root: &str,
    answer: &Value,
    kinds: &mut Vec<Listed>,
    unread: &mut Vec<Unread>,
) -> Result<(), CallError> {
    if answer["kind"] != "APIGroupDiscoveryList" {
        let why = "no aggregated discovery; Kubernetes 1.30 or later is required";
        return Err(CallError::UnknownKind(why.to_owned()));
    }
    for item in answer["items"].as_array().into_iter().flatten() {
        let group = text(item, "/metadata/name");
        // The first version is the preferred one, and every version serves the same objects. A kind
        // that only another version serves is listed in that version.
        let mut known: Vec<String> = Vec::new();
        for version in item["versions"].as_array().into_iter().flatten() {
            let name = text(version, "/version");
            let prefix = if group.is_empty() { name } else { format!("{group}/{name}") };
            if version["freshness"] == "Stale" {
                let why = "its API server is unavailable".to_owned();
                unread.push(Unread { what: prefix, why });
                continue;
            }
            for resource in version["resources"].as_array().into_iter().flatten() {
                let plural = text(resource, "/resource");
                let verbs = resource["verbs"].as_array();
                let can_list = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
                let wanted = resource["scope"] == "Namespaced" && can_list;
                if wanted && !known.contains(&plural) {
                    known.push(plural.clone());
                    kinds.push(Listed {
                        root: format!("{root}/{prefix}"),
                        kind: text(resource, "/responseKind/kind"),
                        group: group.clone(),
                        plural,
                    });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(freshness: &str) -> Value {
        let resource = |name: &str, kind: &str, scope: &str, verbs: &[&str]| json!({ "resource": name, "scope": scope, "verbs": verbs, "responseKind": { "kind": kind } });
        json!({ "kind": "APIGroupDiscoveryList", "items": [{
            "metadata": { "name": "apps" },
            "versions": [
                { "version": "v1", "freshness": freshness, "resources": [
                    resource("deployments", "Deployment", "Namespaced", &["get", "list"]),
                    resource("bindings", "Binding", "Namespaced", &["create"]),
                    resource("nodes", "Node", "Cluster", &["list"]),
                ] },
                { "version": "v1beta1", "freshness": "Current", "resources": [
                    resource("deployments", "Deployment", "Namespaced", &["list"]),
                    resource("widgets", "Widget", "Namespaced", &["list"]),
                ] },
            ],
        }] })
    }

    fn discovered(answer: &Value) -> Result<(Vec<String>, Vec<String>), CallError> {
        let (mut kinds, mut unread) = (Vec::new(), Vec::new());
        discover("/apis", answer, &mut kinds, &mut unread)?;
        let kinds = kinds.iter().map(|kind| format!("{} {}", kind.root, kind.name())).collect();
        Ok((kinds, unread.into_iter().map(|it| it.what).collect()))
    }

    #[test]
    fn each_listable_namespaced_kind_is_discovered_once() {
        let (kinds, unread) = discovered(&answer("Current")).unwrap();
        assert_eq!(kinds, ["/apis/apps/v1 Deployment.apps", "/apis/apps/v1beta1 Widget.apps"]);
        assert_eq!(unread, Vec::<String>::new());
    }

    #[test]
    fn f43_unavailable_api_group_is_reported_as_unread() {
        assert_eq!(discovered(&answer("Stale")).unwrap().1, ["apps/v1"]);
        let error = discovered(&json!({ "kind": "APIGroupList" })).unwrap_err();
        assert!(matches!(error, CallError::UnknownKind(_)), "{error:?}");
    }
}
