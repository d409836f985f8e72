//! Orders: claimed wakes together with everything their executor needs.
//!
//! The keys an order may touch are recorded in the transaction that claims its wake, before anything
//! is written to a cluster: whatever a crash leaves behind, its key is known.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::Row;
use trueup_model::crash;
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, Order, Unit};
use trueup_model::service::DesiredState;
use trueup_model::wake::Claimed;
use trueup_rules::render;
use trueup_rules::variable::{Entries, merge};
use uuid::Uuid;

use crate::clock::sql;
use crate::domain::routes;
use crate::endpoint::open_ports;
use crate::lease::{Lease, fence};
use crate::pool::Tx;
use crate::row::{read, unit, unit_uuid};
use crate::variable::entries;
use crate::{Error, Worker, service, wake};

impl Worker {
    /// Claims wakes that are due and answers with their orders, keys recorded.
    ///
    /// An order's secrets are still sealed, and generated ones missing: both are for the driver.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease is over.
    pub async fn claim_orders(
        &self,
        lease: Lease,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<(Claimed, Order)>, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let claimed = wake::claim(&mut tx, lease.cluster, limit, now).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let mut orders = bodies(&mut tx, &claimed).await?;
        // After the services: an order may carry newer entries than its generation, and then the
        // next one is on its way. Older ones would be reported as if they were new.
        lay_entries(&mut tx, &mut orders).await?;
        load_recorded(&mut tx, &mut orders).await?;
        record_keys(&mut tx, lease, &mut orders, now).await?;
        crash::point("driver.claiming").await;
        tx.commit().await?;
        Ok(claimed
            .into_iter()
            .filter_map(|wake| {
                let order = orders.remove(&wake.unit)?;
                Some((wake, order))
            })
            .collect())
    }
}

async fn bodies(tx: &mut Tx, claimed: &[Claimed]) -> Result<BTreeMap<Unit, Order>, Error> {
    let ids: Vec<Uuid> = claimed.iter().map(|wake| unit_uuid(wake.unit)).collect();
    let mut orders = BTreeMap::new();
    let projects: Vec<(Uuid, Uuid, String, i64)> =
        sqlx::query_as("select id, org_id, namespace, generation from projects where id = any($1)")
            .bind(&ids)
            .fetch_all(&mut **tx)
            .await?;
    for (id, org, namespace, generation) in projects {
        let project = ProjectId::from_uuid(id);
        let order = Order {
            unit: Unit::Project(project),
            org: OrgId::from_uuid(org),
            project,
            namespace,
            generation,
            desired: DesiredState::Active,
            body: Body::Project,
            recorded: BTreeMap::new(),
        };
        orders.insert(order.unit, order);
    }
    let services = sqlx::query(
        "select s.*, p.namespace from services s join projects p on p.id = s.project_id
         where s.id = any($1)",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    for row in &services {
        let service = service::service(row)?;
        let order = Order::of_service(service, row.try_get("namespace")?);
        orders.insert(order.unit, order);
    }
    Ok(orders)
}

/// Lays what is set beside the manifests over the orders: variables, secrets, endpoints, hosts.
async fn lay_entries(tx: &mut Tx, orders: &mut BTreeMap<Unit, Order>) -> Result<(), Error> {
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

async fn load_recorded(tx: &mut Tx, orders: &mut BTreeMap<Unit, Order>) -> Result<(), Error> {
    let ids: Vec<Uuid> = orders.keys().map(|unit| unit_uuid(*unit)).collect();
    let rows: Vec<(String, Uuid, String, String, String, Option<String>)> = sqlx::query_as(
        "select unit_kind, unit_id, kind, namespace, name, uid from resources where unit_id = any($1)",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    for (unit_kind, unit_id, kind, namespace, name, uid) in rows {
        if let Some(order) = orders.get_mut(&unit(&unit_kind, unit_id)) {
            order.recorded.insert(ResourceKey { kind: read("kind", kind)?, namespace, name }, uid);
        }
    }
    Ok(())
}

/// Adds the keys of what each order asks for. A deletion asks for nothing new.
async fn record_keys(
    tx: &mut Tx,
    lease: Lease,
    orders: &mut BTreeMap<Unit, Order>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut new: Vec<(ResourceKey, Unit, OrgId, i64)> = Vec::new();
    for order in orders.values_mut().filter(|order| order.desired != DesiredState::Deleted) {
        for key in render::keys(order) {
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
        "insert into resources (cluster_id, kind, namespace, name, unit_kind, unit_id, org_id,
                                first_generation, recorded_at)
         select $1, k.kind, k.namespace, k.name, k.unit_kind, k.unit_id, k.org_id, k.generation, $2
         from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::bigint[])
              as k (kind, namespace, name, unit_kind, unit_id, org_id, generation)
         on conflict (cluster_id, kind, namespace, name) do nothing",
    )
    .bind(lease.cluster.uuid())
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
