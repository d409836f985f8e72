//! What the usage of a batch of objects is computed from.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::types::Json;
use trueup_model::id::{ClusterId, OrgId, ProjectId, ServiceId};
use trueup_model::spec::Spec;
use trueup_model::transition::Transition;
use trueup_model::usage::Owner;
use trueup_rules::usage::{AcceptedPlan, Nodes, Watermarks};
use uuid::Uuid;

use crate::Error;
use crate::db::pool::Tx;
use crate::db::row::{read_json, time};
use crate::transition::{COLUMNS, transition};
use crate::usage::watermarks;

/// The observations of a batch of objects, and what they are joined with.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// The transitions of each object with its owner.
    pub(crate) objects: Vec<(Owner, Vec<Transition>)>,
    /// The releases of the services.
    pub(crate) plans: BTreeMap<ServiceId, Vec<AcceptedPlan>>,
    /// The nodes of the cluster.
    pub(crate) nodes: Nodes,
    /// How far the sources were heard.
    pub(crate) watermarks: Watermarks,
}

/// Which objects of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Objects<'a> {
    /// Those with these uids.
    Uids(&'a [String]),
    /// All of an org.
    Org(OrgId),
}

impl Inputs {
    /// Reads the observations of objects. Without nodes these are read, too.
    pub(crate) async fn read(
        tx: &mut Tx,
        cluster: ClusterId,
        which: Objects<'_>,
        nodes: Option<Nodes>,
    ) -> Result<Self, Error> {
        let objects = objects(tx, cluster, which).await?;
        let services: Vec<Uuid> =
            objects.iter().filter_map(|(owner, _)| owner.service).map(ServiceId::uuid).collect();
        let heard = watermarks(&mut **tx, Some(cluster)).await?;
        Ok(Self {
            objects,
            plans: plans(tx, &services).await?,
            nodes: match nodes {
                Some(nodes) => nodes,
                None => Self::nodes(tx, cluster).await?,
            },
            watermarks: heard.into_values().next().unwrap_or_default(),
        })
    }

    /// The nodes of a cluster.
    pub(crate) async fn nodes(tx: &mut Tx, cluster: ClusterId) -> Result<Nodes, Error> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "select {COLUMNS} from transitions t where t.cluster_id = $1 and t.kind = 'Node' order by t.id"
        )))
        .bind(cluster.uuid())
        .fetch_all(&mut **tx)
        .await?;
        let changes: Vec<Transition> = rows.iter().map(transition).collect::<Result<_, _>>()?;
        Ok(Nodes::of(&changes))
    }
}

async fn objects(
    tx: &mut Tx,
    cluster: ClusterId,
    which: Objects<'_>,
) -> Result<Vec<(Owner, Vec<Transition>)>, Error> {
    let (uids, org) = match which {
        Objects::Uids(uids) => (Some(uids), None),
        Objects::Org(org) => (None, Some(org)),
    };
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS}, t.org_id, s.project_id
         from transitions t left join services s on s.id = t.service_id
         where t.cluster_id = $1 and t.kind in ('Pod', 'PersistentVolumeClaim')
           and ($2::text[] is null or t.uid = any($2)) and ($3::uuid is null or t.org_id = $3)
         order by t.uid, t.id"
    )))
    .bind(cluster.uuid())
    .bind(uids)
    .bind(org.map(OrgId::uuid))
    .fetch_all(&mut **tx)
    .await?;
    let mut objects: BTreeMap<String, (Owner, Vec<Transition>)> = BTreeMap::new();
    for row in &rows {
        let change = transition(row)?;
        let project: Option<Uuid> = row.try_get("project_id")?;
        let owner = Owner {
            org: OrgId::from_uuid(row.try_get("org_id")?),
            project: project.map(ProjectId::from_uuid),
            service: change.service,
        };
        let uid = change.uid.clone();
        objects.entry(uid).or_insert_with(|| (owner, Vec::new())).1.push(change);
    }
    Ok(objects.into_values().collect())
}

async fn plans(
    tx: &mut Tx,
    services: &[Uuid],
) -> Result<BTreeMap<ServiceId, Vec<AcceptedPlan>>, Error> {
    let rows = sqlx::query(
        "select service_id, generation, accepted_at, spec from releases where service_id = any($1)",
    )
    .bind(services)
    .fetch_all(&mut **tx)
    .await?;
    let mut plans: BTreeMap<ServiceId, Vec<AcceptedPlan>> = BTreeMap::new();
    for row in &rows {
        let spec: Json<serde_json::Value> = row.try_get("spec")?;
        let spec: Spec = read_json("spec", spec)?;
        let accepted = AcceptedPlan {
            accepted_at: time(row, "accepted_at")?,
            generation: row.try_get("generation")?,
            plan: spec.plan,
            resources: spec.resources,
            nodes: spec.nodes,
        };
        plans.entry(ServiceId::from_uuid(row.try_get("service_id")?)).or_default().push(accepted);
    }
    Ok(plans)
}
