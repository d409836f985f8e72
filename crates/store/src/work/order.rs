//! Orders: claimed wakes together with everything their executor needs.
//!
//! The keys an order may touch are recorded in the transaction that claims its wake, before
//! anything is written to a cluster: the keys of all objects are known even after a crash.

mod drift;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, Row};
use trueup_model::crash;
use trueup_model::drift::DriftOrder;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, DeletionPermit, Order, Unit};
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Claimed;
use trueup_rules::admit::variable::{Entries, merge};
use trueup_rules::render;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, read_json, unit, unit_uuid};
use crate::domain::routes;
use crate::endpoint::open_ports;
use crate::freeze::freeze;
use crate::variable::entries;
use crate::work::lease::{Lease, fence};
use crate::work::wake;
use crate::{Error, Worker, service};

pub(crate) use drift::policies;

impl Worker {
    /// Claims due wakes, fairly by lane and org; records the keys of their orders and returns them.
    ///
    /// An order's secrets are still encrypted and generated ones missing: the driver adds them. A
    /// unit with corrupt rows does not block others: the defect is counted against its own wake.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn claim_orders(
        &self,
        lease: Lease,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<(Claimed, Order)>, Error> {
        match self.claim_together(lease, limit, now).await {
            Err(error) if error.is_defect() => self.claim_apart(lease, limit, now).await,
            claimed => claimed,
        }
    }

    /// Claims a batch in one transaction.
    async fn claim_together(
        &self,
        lease: Lease,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<(Claimed, Order)>, Error> {
        let mut tx = self.begin().await?;
        let claimed = self.claim(&mut tx, lease, limit, now).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let orders = match orders(&mut tx, lease, claimed, now).await {
            Ok(orders) => orders,
            Err(error) => {
                // Now, not on drop: the next claim skips the rows that are still locked here.
                tx.rollback().await?;
                return Err(error);
            }
        };
        crash::point("driver.claiming").await;
        tx.commit().await?;
        Ok(orders)
    }

    /// Loads each order in its own transaction, to isolate the unit with the defect.
    async fn claim_apart(
        &self,
        lease: Lease,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<(Claimed, Order)>, Error> {
        let mut tx = self.begin().await?;
        let claimed = self.claim(&mut tx, lease, limit, now).await?;
        tx.commit().await?;
        let mut all = Vec::new();
        for wake in claimed {
            let mut tx = self.begin().await?;
            fence(&mut tx, lease).await?;
            match orders(&mut tx, lease, vec![wake.clone()], now).await {
                Ok(orders) => {
                    tx.commit().await?;
                    all.extend(orders);
                }
                Err(error) if error.is_defect() => {
                    tx.rollback().await?;
                    self.poison_wake(&wake, &error.describe(), now).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn claim(
        &self,
        tx: &mut Tx,
        lease: Lease,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<Claimed>, Error> {
        fence(tx, lease).await?;
        let limit = usize::try_from(limit).unwrap_or(0);
        let mut turns = self.turns(lease.scope);
        let claimed = wake::claim(tx, lease.scope, &mut turns, limit, now).await?;
        self.note_turns(lease.scope, turns);
        Ok(claimed)
    }
}

/// The orders of claimed wakes, in claim order. The wake of a unit without a row is dropped.
async fn orders(
    tx: &mut Tx,
    lease: Lease,
    claimed: Vec<Claimed>,
    now: Timestamp,
) -> Result<Vec<(Claimed, Order)>, Error> {
    let ids: Vec<Uuid> = claimed.iter().map(|wake| unit_uuid(wake.unit)).collect();
    let mut orders = load(tx, &ids).await?;
    drift::load(tx, &mut orders, now).await?;
    record_keys(tx, lease, &mut orders, now).await?;
    record_wants(tx, lease, &mut orders).await?;
    let (present, gone): (Vec<_>, Vec<_>) =
        claimed.into_iter().partition(|wake| orders.contains_key(&wake.unit));
    for wake in gone {
        wake::drop_claimed(tx, &wake).await?;
    }
    Ok(present
        .into_iter()
        .filter_map(|wake| {
            let order = orders.remove(&wake.unit)?;
            Some((wake, order))
        })
        .collect())
}

/// The current orders of these projects and services, with every key ever recorded for them.
///
/// Without the decisions about drift: they change nothing about the desired state.
pub(crate) async fn load(tx: &mut Tx, ids: &[Uuid]) -> Result<BTreeMap<Unit, Order>, Error> {
    let mut orders = bodies(tx, ids).await?;
    // After the services: an order may carry newer entries than its generation, and then the next
    // generation follows. Older entries would be reported as if they were current.
    merge_entries(tx, &mut orders).await?;
    load_recorded(tx, &mut orders).await?;
    load_tenants(tx, &mut orders).await?;
    Ok(orders)
}

/// The order of a service that is not accepted yet. Records nothing.
pub(crate) async fn would_be(
    tx: &mut Tx,
    service: Service,
    namespace: String,
    freeze: Option<Freeze>,
    now: Timestamp,
) -> Result<Order, Error> {
    let policies = drift::would_be_policies(tx, &service).await?;
    let drift = DriftOrder { policies, ..DriftOrder::default() };
    let order = Order { freeze, drift, ..Order::of_service(service, namespace) };
    let unit = order.unit;
    let mut orders = BTreeMap::from([(unit, order)]);
    merge_entries(tx, &mut orders).await?;
    load_recorded(tx, &mut orders).await?;
    drift::load(tx, &mut orders, now).await?;
    let mut order = orders.remove(&unit).expect("the order inserted above should be present");
    for key in keys(&order)? {
        order.recorded.entry(key).or_insert(None);
    }
    let (unwanted, generation) = (render::unwanted(&order), order.generation);
    let known = &mut order.permit.unwanted;
    known.retain(|key, _| unwanted.contains(key));
    for key in unwanted {
        known.entry(key).or_insert(generation);
    }
    Ok(order)
}

/// Adds the services left in a project that is being deleted: they are deleted first.
async fn load_tenants(tx: &mut Tx, orders: &mut BTreeMap<Unit, Order>) -> Result<(), Error> {
    let ends = |order: &&Order| {
        matches!(order.body, Body::Project) && order.desired == DesiredState::Deleted
    };
    let ending: Vec<Uuid> =
        orders.values().filter(ends).map(|order| order.project.uuid()).collect();
    if ending.is_empty() {
        return Ok(());
    }
    let rows: Vec<(Uuid, String)> = sqlx::query_as(
        "select project_id, name from services where project_id = any($1) and deleted_at is null",
    )
    .bind(&ending)
    .fetch_all(&mut **tx)
    .await?;
    for (project, name) in rows {
        let unit = Unit::Project(ProjectId::from_uuid(project));
        if let Some(order) = orders.get_mut(&unit) {
            order.permit.tenants.insert(name);
        }
    }
    Ok(())
}

#[derive(FromRow)]
struct ProjectColumns {
    id: Uuid,
    org_id: Uuid,
    namespace: String,
    generation: i64,
    desired: String,
    force: Option<Json<Value>>,
    survey: Option<Json<Value>>,
}

async fn bodies(tx: &mut Tx, ids: &[Uuid]) -> Result<BTreeMap<Unit, Order>, Error> {
    let mut orders = BTreeMap::new();
    let projects: Vec<ProjectColumns> = sqlx::query_as(
        "select id, org_id, namespace, generation, desired, force, survey
         from projects where id = any($1)",
    )
    .bind(ids)
    .fetch_all(&mut **tx)
    .await?;
    for row in projects {
        let project = ProjectId::from_uuid(row.id);
        let order = Order {
            unit: Unit::Project(project),
            org: OrgId::from_uuid(row.org_id),
            project,
            namespace: row.namespace,
            generation: row.generation,
            desired: read("desired state", row.desired)?,
            body: Body::Project,
            freeze: None,
            // Its own objects isolate it from other projects: they are always enforced.
            drift: DriftOrder::default(),
            recorded: BTreeMap::new(),
            permit: DeletionPermit {
                force: row.force.map(|force| read_json("force", force)).transpose()?,
                survey: row.survey.map(|survey| read_json("survey", survey)).transpose()?,
                ..DeletionPermit::default()
            },
        };
        orders.insert(order.unit, order);
    }
    let services = sqlx::query(
        "select s.*, p.namespace, p.drift as project_drift, t.body -> 'drift' as template_drift
         from services s join projects p on p.id = s.project_id
         left join templates t on t.name = s.template_name and t.version = s.template_version
         where s.id = any($1)",
    )
    .bind(ids)
    .fetch_all(&mut **tx)
    .await?;
    for row in &services {
        let service = service::service(row)?;
        let policies = policies(service.drift.clone(), row)?;
        let mut order = Order::of_service(service, row.try_get("namespace")?);
        order.drift.policies = policies;
        order.freeze = freeze(row, FreezeScope::Service)?;
        let force: Option<Json<Value>> = row.try_get("force")?;
        order.permit.force = force.map(|force| read_json("force", force)).transpose()?;
        orders.insert(order.unit, order);
    }
    Ok(orders)
}

/// Adds what is set outside of manifests to the orders: variables, secrets, endpoints and hosts.
async fn merge_entries(tx: &mut Tx, orders: &mut BTreeMap<Unit, Order>) -> Result<(), Error> {
    let projects: BTreeSet<Uuid> = orders.values().map(|order| order.project.uuid()).collect();
    let all = entries(tx, &projects.into_iter().collect::<Vec<_>>()).await?;
    let none = Entries::default();
    for order in orders.values_mut().filter(|order| order.desired != DesiredState::Deleted) {
        if let (Unit::Service(service), Body::Service(body)) = (order.unit, &mut order.body) {
            let shared = all.get(&(order.project, None)).unwrap_or(&none);
            let own = all.get(&(order.project, Some(service))).unwrap_or(&none);
            (body.spec.variables, body.sealed) = merge(&body.spec, shared, own);
        }
    }
    let services: Vec<Uuid> = orders.keys().map(|unit| unit_uuid(*unit)).collect();
    for (service, open) in open_ports(tx, &services).await? {
        if let Some(Body::Service(body)) =
            orders.get_mut(&Unit::Service(service)).map(|order| &mut order.body)
        {
            body.endpoints.push(open);
        }
    }
    for (service, route, routing) in routes(tx, &services).await? {
        if let Some(Body::Service(body)) =
            orders.get_mut(&Unit::Service(service)).map(|order| &mut order.body)
        {
            body.routes.push(route);
            body.routing = routing;
        }
    }
    Ok(())
}

/// A key that was recorded for a unit.
#[derive(FromRow)]
struct Recorded {
    subject_kind: String,
    subject_id: Uuid,
    kind: String,
    namespace: String,
    name: String,
    uid: Option<String>,
    unwanted_since_generation: Option<i64>,
}

async fn load_recorded(tx: &mut Tx, orders: &mut BTreeMap<Unit, Order>) -> Result<(), Error> {
    let ids: Vec<Uuid> = orders.keys().map(|unit| unit_uuid(*unit)).collect();
    let rows: Vec<Recorded> = sqlx::query_as(
        "select subject_kind, subject_id, kind, namespace, name, uid, unwanted_since_generation
             from resources where subject_id = any($1)",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    for row in rows {
        if let Some(order) = orders.get_mut(&unit(&row.subject_kind, row.subject_id)?) {
            let kind = read("kind", row.kind)?;
            let key = ResourceKey { kind, namespace: row.namespace, name: row.name };
            if let Some(since) = row.unwanted_since_generation {
                order.permit.unwanted.insert(key.clone(), since);
            }
            order.recorded.insert(key, row.uid);
        }
    }
    Ok(())
}

/// Records the keys that each order may write. A deletion adds none.
async fn record_keys(
    tx: &mut Tx,
    lease: Lease,
    orders: &mut BTreeMap<Unit, Order>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut new: Vec<(ResourceKey, Unit, OrgId, i64)> = Vec::new();
    for order in orders.values_mut().filter(|order| order.desired != DesiredState::Deleted) {
        for key in keys(order)? {
            if !order.recorded.contains_key(&key) {
                new.push((key.clone(), order.unit, order.org, order.generation));
                order.recorded.insert(key, None);
            }
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into resources (cluster_id, kind, namespace, name, subject_kind, subject_id, org_id,
                                first_generation, recorded_at)
         select $1, k.kind, k.namespace, k.name, k.subject_kind, k.subject_id, k.org_id, k.generation, $2
         from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::bigint[])
              as k (kind, namespace, name, subject_kind, subject_id, org_id, generation)
         on conflict (cluster_id, kind, namespace, name) do nothing",
    )
    .bind(lease.scope.uuid())
    .bind(sql(now))
    .bind(new.iter().map(|(key, ..)| key.kind.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(key, ..)| key.namespace.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(key, ..)| key.name.as_str()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, unit, ..)| unit.kind()).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, unit, ..)| unit_uuid(*unit)).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, _, org, _)| org.uuid()).collect::<Vec<_>>())
    .bind(new.iter().map(|(.., generation)| *generation).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records since which generation a unit no longer wants a key, or clears that if it wants it
/// again.
///
/// Without this record no object of a unit that is not being deleted is pruned.
async fn record_wants(
    tx: &mut Tx,
    lease: Lease,
    orders: &mut BTreeMap<Unit, Order>,
) -> Result<(), Error> {
    let mut changed: Vec<(ResourceKey, OrgId, Option<i64>)> = Vec::new();
    for order in orders.values_mut().filter(|order| order.desired != DesiredState::Deleted) {
        let unwanted = render::unwanted(order);
        let (generation, org) = (order.generation, order.org);
        let known = &mut order.permit.unwanted;
        let wanted_again = known.keys().filter(|key| !unwanted.contains(*key));
        changed.extend(wanted_again.map(|key| (key.clone(), org, None)));
        known.retain(|key, _| unwanted.contains(key));
        for key in unwanted {
            known.entry(key).or_insert_with_key(|key| {
                changed.push((key.clone(), org, Some(generation)));
                generation
            });
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update resources r set unwanted_since_generation = w.since
         from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::uuid[])
              as w (kind, namespace, name, since, org_id)
         where r.cluster_id = $1 and r.kind = w.kind and r.namespace = w.namespace and r.name = w.name
           and r.org_id = w.org_id",
    )
    .bind(lease.scope.uuid())
    .bind(changed.iter().map(|(key, ..)| key.kind.as_str()).collect::<Vec<_>>())
    .bind(changed.iter().map(|(key, ..)| key.namespace.as_str()).collect::<Vec<_>>())
    .bind(changed.iter().map(|(key, ..)| key.name.as_str()).collect::<Vec<_>>())
    .bind(changed.iter().map(|(.., since)| *since).collect::<Vec<_>>())
    .bind(changed.iter().map(|(_, org, _)| org.uuid()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The keys of the objects that an order renders.
///
/// A panic in rendering is a defect of one unit and must not stop the driver for all others.
fn keys(order: &Order) -> Result<Vec<ResourceKey>, Error> {
    #[derive(Debug, thiserror::Error)]
    #[error("rendering panicked; see the log for the location")]
    struct Panicked;
    catch_unwind(AssertUnwindSafe(|| render::keys(order).into_iter().collect()))
        .map_err(|_| Error::corrupt("spec", Panicked))
}
