//! Orders: keys are recorded before an executor can write them.

use std::collections::{BTreeMap, BTreeSet};
use trueup_testkit::report_batch::RecordReports as _;

use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_model::service::DesiredState;
use trueup_rules::render;
use trueup_store::{Error, OrderMark};

use crate::stage::{Stage, at, converged, unit};

impl Stage {
    async fn orders(&self, seconds: i64) -> Vec<Order> {
        let lease = self.lease().await;
        let claimed = self.db.worker.claim_orders(lease, 10, at(seconds)).await;
        claimed.unwrap().into_iter().map(|(_, order)| order).collect()
    }

    async fn keys_on_record(&self) -> BTreeSet<String> {
        let keys = "select concat_ws('/', kind, nullif(namespace, ''), name) from resources";
        self.all(keys).await.into_iter().collect()
    }
}

#[tokio::test]
async fn claiming_records_every_key_the_order_may_touch() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    assert!(stage.keys_on_record().await.is_empty());
    let orders = stage.orders(1).await;
    assert_eq!(orders.len(), 2);
    let mut wanted = BTreeSet::new();
    for order in &orders {
        let rendered = render::keys(order);
        assert!(rendered.iter().all(|key| order.recorded.contains_key(key)));
        wanted.extend(rendered.iter().map(ToString::to_string));
    }
    assert_eq!(stage.keys_on_record().await, wanted);
    let service = orders.iter().find(|order| order.unit == unit(&row)).unwrap();
    assert_eq!(
        (service.generation, service.desired, service.org),
        (1, DesiredState::Active, stage.db.org)
    );
    let Body::Service(body) = &service.body else {
        panic!("expected an order of a service");
    };
    assert_eq!(body.object_name, row.service.object_name);
    assert!(body.secrets.is_empty());
}

#[tokio::test]
async fn claiming_again_after_a_crash_records_no_key_twice_and_keeps_uids() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let before: BTreeSet<_> = stage.orders(1).await.iter().flat_map(render::keys).collect();
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    worker.record_reports(lease, &[converged(&row, 1)], at(3)).await.unwrap();

    let again = stage.orders(4).await;
    let after: BTreeSet<_> = again.iter().flat_map(render::keys).collect();
    assert_eq!(before, after);
    let seen: Vec<_> = again
        .iter()
        .flat_map(|order| &order.recorded)
        .filter_map(|(key, uid)| Some((key.kind, uid.as_deref()?)))
        .collect();
    assert_eq!(seen, [(Kind::Deployment, "uid-1")]);
}

#[tokio::test]
async fn a_deletion_adds_no_key_and_has_every_recorded_one() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.orders(1).await;
    let before = stage.keys_on_record().await;
    stage.delete("web").await.unwrap();
    let orders = stage.orders(3).await;
    let order = orders.iter().find(|order| order.unit == unit(&row)).unwrap();
    assert_eq!((order.desired, order.generation), (DesiredState::Deleted, 2));
    assert!(!order.recorded.is_empty());
    assert_eq!(stage.keys_on_record().await, before);
}

#[tokio::test]
async fn a_service_deleted_before_it_was_ever_ordered_has_no_keys() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let orders = stage.orders(3).await;
    let order = orders.iter().find(|order| order.unit == unit(&row)).unwrap();
    assert!(order.recorded.is_empty());
}

#[tokio::test]
async fn a_stale_holder_claims_nothing_and_records_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let stale = stage.lease().await;
    stage.lease().await;
    let refused = stage.db.worker.claim_orders(stale, 10, at(1)).await;
    assert!(matches!(refused, Err(Error::Fenced)));
    assert!(stage.keys_on_record().await.is_empty());
    assert_eq!(stage.db.count_wakes().await, (2, 0));
}

#[tokio::test]
async fn a_lease_holder_gets_no_orders_of_another_cluster() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let other = stage.db.setup.ensure_cluster("other", at(0)).await.unwrap();
    let worker = &stage.db.worker;
    let lease = worker.acquire_lease(other, "one", None, at(0)).await.unwrap().ours().unwrap();
    assert!(worker.claim_orders(lease, 10, at(9)).await.unwrap().is_empty());
    assert_eq!(stage.db.count_wakes().await, (2, 0));
}

#[tokio::test]
async fn an_unwanted_key_is_recorded_with_its_generation_before_it_may_be_pruned() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.orders(1).await;
    sqlx::query(
        "insert into resources (cluster_id, kind, namespace, name, org_id, subject_kind, subject_id,
                                first_generation, recorded_at)
         select cluster_id, kind, namespace, 'former', org_id, subject_kind, subject_id, 1, recorded_at
         from resources where kind = 'Deployment'",
    )
    .execute(&stage.owner)
    .await
    .unwrap();
    sqlx::query("update resources set unwanted_since_generation = 1 where name = $1")
        .bind(&row.service.object_name)
        .execute(&stage.owner)
        .await
        .unwrap();
    stage.declare("web", "nginx:2").await;
    for generation in [2, 2, 3] {
        if generation == 3 {
            stage.declare("web", "nginx:3").await;
        }
        let orders = stage.orders(5).await;
        let order = orders.iter().find(|order| order.unit == unit(&row)).unwrap();
        let unwanted: Vec<_> =
            order.permit.unwanted.iter().map(|(key, since)| (key.name.as_str(), *since)).collect();
        assert_eq!(unwanted, [("former", 2)], "at generation {generation}");
    }
    let wanted = "select count(*) from resources where unwanted_since_generation is not null";
    assert_eq!(stage.one::<i64>(wanted).await, 1);
}

/// A wake can be lost; the marks show it, and waking writes only what is missing.
#[tokio::test]
async fn marks_follow_the_accepted_state_and_only_units_without_a_wake_are_woken() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let worker = &stage.db.worker;
    let lease = stage.lease().await;
    let claimed = worker.claim_orders(lease, 10, at(1)).await.unwrap();
    let given: BTreeMap<_, _> =
        claimed.iter().map(|(_, order)| (order.unit, OrderMark::of(order))).collect();
    let marks = worker.order_marks(stage.db.cluster).await.unwrap();
    assert_eq!(marks, given, "the orders are current");
    for (wake, _) in &claimed {
        worker.finish_wakes(std::slice::from_ref(wake), at(2)).await.unwrap();
    }

    stage.declare("web", "nginx:2").await;
    let changed = worker.order_marks(stage.db.cluster).await.unwrap();
    let older: Vec<_> =
        marks.iter().filter(|(unit, mark)| mark.is_older_than(&changed[*unit])).collect();
    assert_eq!(older.len(), 1);
    assert_eq!((*older[0].0, changed[&unit(&row)].generation), (unit(&row), 2));
    let units: Vec<_> = changed.keys().copied().collect();
    assert_eq!(worker.wake_units(lease, &units, at(3)).await.unwrap(), 1, "only the project");
    assert_eq!(worker.wake_units(lease, &units, at(3)).await.unwrap(), 0, "all have a wake");
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_units(lease, &[unit(&row)], at(4)).await.unwrap(), 1);
    let former = lease;
    stage.lease().await;
    let refused = worker.wake_units(former, &units, at(5)).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");
}
