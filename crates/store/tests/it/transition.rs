//! Raw transitions: recorded once, with explicit gaps, partitioned by month.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::transition::ObjectUpdate;
use trueup_rules::status::transition::snapshot;
use trueup_store::{Error, Lease, Observer, ServiceRow};

use crate::stage::{PROJECT, Stage, at};

fn observer(lease: Lease) -> Observer {
    Observer { lease, name: "executor/one".to_owned(), before: Freshness::default() }
}

pub(crate) fn pod(row: &ServiceRow, uid: &str, version: u32, node: Option<&str>) -> Value {
    json!({
        "metadata": { "uid": uid, "name": format!("web-{uid}"), "namespace": row.namespace,
            "resourceVersion": version.to_string(), "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": { "trueup.dev/name": row.service.object_name } },
        "spec": { "nodeName": node }, "status": { "phase": "Pending" },
    })
}

pub(crate) fn present(kind: Kind, object: &Value, seen_at: Timestamp) -> ObjectUpdate {
    ObjectUpdate::Present { snapshot: Box::new(snapshot(kind, object).unwrap()), seen_at }
}

fn listed(kind: Kind, uids: &[&str], since: Option<Timestamp>, seen_at: Timestamp) -> ObjectUpdate {
    let uids: BTreeSet<String> = uids.iter().map(|uid| (*uid).to_owned()).collect();
    ObjectUpdate::Listed { kind, uids, resource_version: "99".to_owned(), since, seen_at }
}

impl Stage {
    async fn note(&self, observer: &Observer, updates: &[ObjectUpdate], seconds: i64) -> usize {
        self.db.worker.note_transitions(observer, updates, at(seconds)).await.unwrap()
    }

    /// The transitions of a service as text.
    async fn history(&self, service: &str) -> Vec<String> {
        let app = &self.db.app;
        let rows = app.list_transitions(self.db.org, (PROJECT, service), None, 1000).await;
        let word = |what| match serde_json::to_value(what).unwrap()["is"].take() {
            Value::String(word) => word,
            other => panic!("{other}"),
        };
        let rows = rows.unwrap().unwrap();
        rows.into_iter()
            .map(|row| {
                let after = row.after.map(|after| format!(" after {}", seconds(after)));
                let (kind, name, seen) = (row.kind, row.name, seconds(row.seen_at));
                format!("{seen} {kind} {name} {}{}", word(row.what), after.unwrap_or_default())
            })
            .collect()
    }
}

fn seconds(time: Timestamp) -> i64 {
    time.as_second() - at(0).as_second()
}

#[tokio::test]
async fn a_repeated_update_is_recorded_once() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let one = observer(stage.lease().await);
    let life = [
        listed(Kind::Pod, &[], None, at(1)),
        present(Kind::Pod, &pod(&row, "a", 5, None), at(2)),
        present(Kind::Pod, &pod(&row, "a", 7, Some("n1")), at(3)),
    ];
    assert_eq!(stage.note(&one, &life, 4).await, 2);
    let expected = ["1 Pod  unobserved", "2 Pod web-a appeared", "3 Pod web-a scheduled"];
    assert_eq!(stage.history("web").await, expected);
    // The answer was lost and the updates are resent; then a new observer lists the same object.
    assert_eq!(stage.note(&one, &life[2..], 5).await, 0);
    let lease = stage
        .db
        .worker
        .acquire_lease(stage.db.cluster, "one", None, at(6))
        .await
        .unwrap()
        .ours()
        .unwrap();
    let heard = [(Kind::Pod, at(4))].into_iter().collect();
    let two = Observer { before: Freshness { heard }, ..observer(lease) };
    let again = [
        present(Kind::Pod, &pod(&row, "a", 8, Some("n1")), at(7)),
        listed(Kind::Pod, &["a"], None, at(7)),
    ];
    assert_eq!(stage.note(&two, &again, 7).await, 0);
    let mut expected = expected.map(str::to_owned).to_vec();
    expected.push("7 Pod  unobserved after 4".to_owned());
    assert_eq!(stage.history("web").await, expected);
    // The old observer is fenced off.
    let late = [present(Kind::Pod, &pod(&row, "b", 9, None), at(8))];
    let fenced = stage.db.worker.note_transitions(&one, &late, at(8)).await;
    assert!(matches!(fenced, Err(Error::Fenced)));
}

#[tokio::test]
async fn lost_heads_do_not_duplicate_transitions() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let one = observer(stage.lease().await);
    let update = [present(Kind::Pod, &pod(&row, "a", 7, Some("n1")), at(3))];
    assert_eq!(stage.note(&one, &update, 3).await, 2);
    let before = stage.history("web").await;
    sqlx::query("delete from transition_heads").execute(&stage.owner).await.unwrap();
    stage.note(&one, &update, 4).await;
    assert_eq!(stage.history("web").await, before);
}

#[tokio::test]
async fn an_object_that_vanished_unobserved_is_gone_with_a_time_range() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let one = observer(stage.lease().await);
    let begin = [
        present(Kind::Pod, &pod(&row, "a", 5, None), at(2)),
        present(Kind::Pod, &pod(&row, "b", 6, None), at(3)),
        listed(Kind::Pod, &["a", "b"], None, at(3)),
    ];
    stage.note(&one, &begin, 4).await;
    let gone = ObjectUpdate::Gone {
        uid: "b".to_owned(),
        resource_version: "8".to_owned(),
        seen_at: at(9),
    };
    let later = [
        gone.clone(),
        listed(Kind::Node, &[], None, at(15)),
        listed(Kind::Pod, &[], Some(at(10)), at(20)),
    ];
    assert_eq!(stage.note(&one, &later, 20).await, 2);
    assert_eq!(stage.note(&one, &[gone], 21).await, 0, "an object is gone only once");
    let history = stage.history("web").await;
    assert_eq!(
        history[3..],
        ["9 Pod web-b gone", "20 Pod  unobserved after 10", "20 Pod web-a gone after 10"],
        "{history:#?}"
    );
    let heads: i64 = stage.one("select count(*) from transition_heads").await;
    assert_eq!(heads, 0);
}

#[tokio::test]
async fn disks_belong_to_their_service_and_nodes_to_the_platform() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let one = observer(stage.lease().await);
    let claim = format!("data-{}-0", row.service.object_name);
    let insert = "insert into resources (cluster_id, kind, namespace, name, org_id, subject_kind, subject_id, first_generation, recorded_at)
         values ($1, 'PersistentVolumeClaim', $2, $3, $4, 'service', $5, 1, now())";
    sqlx::query(insert)
        .bind(stage.db.cluster.uuid())
        .bind(&row.namespace)
        .bind(&claim)
        .bind(stage.db.org.uuid())
        .bind(row.service.id.uuid())
        .execute(&stage.owner)
        .await
        .unwrap();
    let volume = |uid: &str, claim: &str| {
        json!({ "metadata": { "uid": uid, "name": uid, "resourceVersion": "3" },
            "spec": { "capacity": { "storage": "1Gi" }, "claimRef": { "namespace": row.namespace, "name": claim } },
            "status": { "phase": "Bound" } })
    };
    let node = json!({ "metadata": { "uid": "n", "name": "n1", "resourceVersion": "4" },
        "status": { "capacity": { "cpu": "4" } } });
    let candidate = json!({ "metadata": { "uid": "s", "name": "s", "resourceVersion": "5",
        "labels": { "trueup.dev/name": "nobodys" } } });
    let updates = [
        present(Kind::PersistentVolume, &volume("ours", &claim), at(1)),
        present(Kind::PersistentVolume, &volume("theirs", "else"), at(1)),
        present(Kind::Node, &node, at(1)),
        present(Kind::Pod, &candidate, at(1)),
    ];
    stage.note(&one, &updates, 2).await;
    assert_eq!(
        stage.history("web").await,
        [
            "1 PersistentVolume ours appeared",
            "1 PersistentVolume ours sized",
            "1 PersistentVolume ours bound",
        ]
    );
    let platform: Vec<String> = stage
        .all("select distinct kind || ' ' || uid from transitions where service_id is null order by 1")
        .await;
    assert_eq!(platform, ["Node n", "Pod s"]);
    // Another tenant sees none of it, and partitions are readable only through their parent.
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    let found = stage.db.app.list_transitions(other, (PROJECT, "web"), None, 9).await.unwrap();
    assert!(found.is_none());
    let readable: Vec<String> = stage
        .all(
            "select relname::text from pg_class where relname like 'transitions_20%' and relkind = 'r'
               and (has_table_privilege('trueup_app', oid, 'select')
                    or has_table_privilege('trueup_worker', oid, 'select'))",
        )
        .await;
    assert!(readable.is_empty(), "{readable:?}");
}

#[tokio::test]
async fn partitions_are_created_ahead_of_time() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let one = observer(stage.lease().await);
    let partitions = "select relname::text from pg_class where relname like 'transitions_20%' and relkind = 'r' order by 1";
    let now = at(0);
    let updates = [present(Kind::Pod, &pod(&row, "a", 5, None), now)];
    stage.note(&one, &updates, 0).await;
    assert_eq!(
        stage.all::<String>(partitions).await,
        ["transitions_2027_01", "transitions_2027_02", "transitions_2027_03"]
    );
    // Fifty days later new partitions exist, and a late update goes into the right one.
    let later = 50 * 86_400;
    let updates = [
        present(Kind::Pod, &pod(&row, "b", 6, None), at(1)),
        present(Kind::Pod, &pod(&row, "c", 7, None), at(later)),
    ];
    let lease = stage.db.worker.acquire_lease(stage.db.cluster, "one", None, at(later)).await;
    let one = observer(lease.unwrap().ours().unwrap());
    stage.note(&one, &updates, later).await;
    assert_eq!(stage.all::<String>(partitions).await.len(), 5);
    let counts: Vec<i64> = stage
        .all("select count(*) from transitions group by tableoid order by tableoid::regclass::text")
        .await;
    assert_eq!(counts, [2, 1]);
    let two = tokio::join!(
        stage.db.worker.note_transitions(&one, &[], at(later + 100 * 86_400)),
        stage.db.worker.note_transitions(&one, &[], at(later + 100 * 86_400)),
    );
    assert!(two.0.is_ok() && two.1.is_ok(), "two replicas at once: {two:?}");
}
