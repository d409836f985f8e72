//! Compares the test server of the rules crate with the fake cluster, which the contract compares
//! with a real one: the same steps leave the same objects, apart from defaults.

#[path = "../../../rules/tests/it/server.rs"]
#[expect(dead_code, reason = "its controllers are not compared here")]
mod server;

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};
use trueup_testkit::fake_cluster::{FakeCluster, fill_defaults};

use server::Server;

const NAMESPACE: &str = "team";

/// Both of them.
struct Pair {
    rules: Server,
    fake: FakeCluster,
}

impl Pair {
    fn new() -> Self {
        let fake = FakeCluster::new();
        // Pods are created by controllers, which are not compared.
        fake.set_controllers(trueup_testkit::fake_cluster::Controllers::Manual);
        fake.edit(&ResourceKey::new(Kind::Namespace, "", NAMESPACE), |_| {});
        Self { rules: Server::default(), fake }
    }

    async fn apply(&mut self, key: &ResourceKey, object: &Value) {
        self.rules.apply(key, object);
        self.fake.apply(key, object).await.expect("it should be applied");
        self.compare(key);
    }

    /// Another writer changes an object.
    fn edit(&mut self, key: &ResourceKey, change: impl Fn(&mut Value)) {
        self.rules.edit(key, &change);
        self.fake.edit(key, change);
        self.fake.settle_controllers();
        self.compare(key);
    }

    /// Our patch, with the uid and version of each server as preconditions.
    async fn patch(&mut self, key: &ResourceKey, patch: &Value) {
        let guarded = |live: Option<Value>| {
            let (live, mut patch) = (live.expect("it should be there"), patch.clone());
            for guard in ["uid", "resourceVersion"] {
                patch["metadata"][guard] = live["metadata"][guard].clone();
            }
            patch
        };
        self.rules.guarded_patch(key, &guarded(self.rules.objects.get(key).cloned()));
        let patch = guarded(self.fake.find(key));
        self.fake.patch(key, &patch).await.expect("it should be patched");
        self.compare(key);
    }

    /// Our delete, with the uid and version of each server as preconditions.
    async fn delete(&mut self, key: &ResourceKey) {
        let [ours, theirs] = self.both(key).map(|live| live.expect("it should be there"));
        let text = |live: &Value, name: &str| live["metadata"][name].as_str().map(str::to_owned);
        let guards = |live: &Value| {
            let (uid, version) = (text(live, "uid"), text(live, "resourceVersion"));
            (uid.expect("a uid"), version.expect("a version"))
        };
        let (uid, version) = guards(&ours);
        self.rules.guarded_delete(key, &uid, &version);
        let (uid, version) = guards(&theirs);
        self.fake.delete(key, &uid, &version).await.expect("it should be deleted");
        self.fake.settle_controllers();
        self.compare(key);
    }

    fn both(&self, key: &ResourceKey) -> [Option<Value>; 2] {
        [self.rules.objects.get(key).cloned(), self.fake.find(key)]
    }

    /// The versions that both have now.
    fn versions(&self, key: &ResourceKey) -> [Value; 2] {
        self.both(key)
            .map(|live| live.expect("it should be there")["metadata"]["resourceVersion"].clone())
    }

    #[track_caller]
    fn compare(&self, key: &ResourceKey) {
        let [ours, theirs] = self.both(key).map(|live| live.map(|live| plain(key.kind, live)));
        assert_eq!(ours, theirs, "{key}: the rules' server, then the cluster in memory");
    }
}

/// An object without fields that differ between servers, and with all defaults.
fn plain(kind: Kind, mut object: Value) -> Value {
    for field in ["status", "apiVersion"] {
        object[field] = Value::Null;
    }
    let going = object["metadata"]["deletionTimestamp"].is_string();
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    let own = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"];
    metadata.retain(|name, _| !own.contains(&name.as_str()));
    if kind != Kind::Deployment {
        metadata.remove("generation");
    }
    metadata.insert("deletionTimestamp".to_owned(), going.into());
    for list in ["finalizers", "ownerReferences"] {
        let is_empty = metadata.get(list).and_then(Value::as_array).is_some_and(Vec::is_empty);
        if is_empty {
            metadata.remove(list);
        }
    }
    for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        owner["uid"] = Value::Null;
    }
    fill_defaults(kind, &mut object);
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("clusterIP");
    }
    object
}

fn at(kind: Kind, name: &str) -> ResourceKey {
    ResourceKey::new(kind, NAMESPACE, name)
}

fn config(key: &ResourceKey, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": key.name }, "data": data })
}

#[tokio::test(start_paused = true)]
async fn both_servers_merge_fields_alike() {
    let mut pair = Pair::new();
    let key = at(Kind::ConfigMap, "one");
    pair.apply(&key, &config(&key, &json!({ "a": "1", "b": "2" }))).await;
    pair.apply(&key, &config(&key, &json!({ "a": "1" }))).await;
    let before = pair.versions(&key);
    pair.apply(&key, &config(&key, &json!({ "a": "1" }))).await;
    assert_eq!(pair.versions(&key), before, "the same again is no change");
    pair.edit(&key, |live| live["data"]["x"] = "theirs".into());
    pair.apply(&key, &config(&key, &json!({ "a": "2" }))).await;
    pair.edit(&key, |live| live["data"]["a"] = "theirs".into());
    pair.apply(&key, &config(&key, &json!({ "a": "2" }))).await;
    pair.patch(&key, &json!({ "data": { "x": null, "y": "1" } })).await;
    pair.edit(&key, |live| live["data"]["a"] = "theirs".into());
    pair.apply(&key, &config(&key, &json!({}))).await;
    let [ours, _] = pair.both(&key);
    assert_eq!(ours.expect("it should be there")["data"], json!({ "a": "theirs", "y": "1" }));
}

#[tokio::test(start_paused = true)]
async fn both_servers_merge_lists_and_count_generations_alike() {
    let mut pair = Pair::new();
    let key = at(Kind::Deployment, "web");
    let object = |replicas: u32, env: &Value| {
        let containers = json!([{ "name": "main", "image": "web:1", "env": env,
                                  "ports": [{ "containerPort": 80 }] }]);
        let labels = json!({ "trueup.dev/name": "web" });
        let template =
            json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
                "spec": { "replicas": replicas, "template": template,
                          "selector": { "matchLabels": labels } } })
    };
    let (a, b) = (json!({ "name": "A", "value": "1" }), json!({ "name": "B", "value": "2" }));
    pair.apply(&key, &object(1, &json!([a, b]))).await;
    pair.edit(&key, |live| {
        let env = &mut live["spec"]["template"]["spec"]["containers"][0]["env"];
        env.as_array_mut().expect("a list").push(json!({ "name": "X", "value": "theirs" }));
    });
    pair.apply(&key, &object(1, &json!([b]))).await;
    pair.edit(&key, |live| live["metadata"]["labels"]["team"] = "red".into());
    pair.apply(&key, &object(2, &json!([b]))).await;
    let [ours, _] = pair.both(&key);
    let ours = ours.expect("it should be there");
    assert_eq!(ours["metadata"]["generation"], 4, "made, edited, and changed twice");
    let env = &ours["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env.as_array().map(Vec::len), Some(2), "{env}");
}

#[tokio::test(start_paused = true)]
async fn both_servers_finalize_and_collect_alike() {
    let mut pair = Pair::new();
    let held = at(Kind::ConfigMap, "held");
    let mut object = config(&held, &json!({}));
    object["metadata"]["finalizers"] = json!(["trueup.dev/anchor"]);
    pair.apply(&held, &object).await;
    let other = at(Kind::ConfigMap, "other");
    pair.apply(&other, &config(&other, &json!({}))).await;
    let child = at(Kind::Secret, "child");
    let [first, second] = [&held, &other].map(|key| pair.both(key));
    let owned = |side: usize| {
        let reference = |both: &[Option<Value>; 2]| {
            let owner = &both[side].as_ref().expect("it should be there")["metadata"];
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"],
                    "uid": owner["uid"] })
        };
        let owners = [reference(&first), reference(&second)];
        json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "child", "ownerReferences": owners } })
    };
    pair.rules.apply(&child, &owned(0));
    pair.fake.apply(&child, &owned(1)).await.expect("it should be applied");
    pair.compare(&child);
    pair.delete(&other).await;
    assert!(pair.both(&child).iter().all(Option::is_some), "it has another owner");

    pair.delete(&held).await;
    assert!(pair.both(&held).iter().all(Option::is_some), "its finalizer keeps it");
    pair.compare(&child);
    pair.patch(&held, &json!({ "metadata": { "finalizers": [] } })).await;
    pair.fake.settle_controllers();
    for key in [&held, &child] {
        assert_eq!(pair.both(key), [None, None], "{key}");
    }
    // A claim is created with a finalizer.
    let claim = at(Kind::PersistentVolumeClaim, "data");
    let object = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    pair.apply(&claim, &object).await;
    let [ours, _] = pair.both(&claim);
    let finalizers = ours.expect("it should be there")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["kubernetes.io/pvc-protection"]));
}
