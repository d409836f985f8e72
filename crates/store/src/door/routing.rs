//! Sets the routing of clusters, and wakes the services whose hosts it concerns.

use jiff::Timestamp;
use trueup_model::cluster::Routing;
use trueup_model::event::{Fact, RoutingChanged};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::org::PLATFORM;
use uuid::Uuid;

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::row::json;
use crate::{App, ClusterRow, Error};

impl App {
    /// Sets the routing of a cluster; returns whether it changed.
    ///
    /// A change wakes every service of the cluster with a verified host. It is a change of the
    /// cluster, not of the services, so they keep their generation.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn put_routing(
        &self,
        cluster: &ClusterRow,
        routing: &Routing,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        self.write(PLATFORM, context, now, |write| put(write, cluster, routing)).await
    }
}

async fn put(
    mut write: Write<'_>,
    cluster: &ClusterRow,
    routing: &Routing,
) -> Result<bool, Refusal> {
    let changed = sqlx::query(
        "update clusters set routing = $2 where id = $1 and routing is distinct from $2",
    )
    .bind(cluster.id.uuid())
    .bind(json(routing))
    .execute(&mut *write.tx)
    .await?;
    let changed = changed.rows_affected() == 1;
    if changed {
        let fact = Fact::RoutingChanged(RoutingChanged {
            cluster: cluster.name.clone(),
            routing: routing.clone(),
            principal: write.principal(),
        });
        write.record(fact).await?;
        wake_routed(&mut write, cluster.id).await?;
    }
    write.finish(changed).await
}

/// Wakes the services of a cluster with a verified host, one org after the other.
///
/// A transaction sees one org at a time, also an operator's.
async fn wake_routed(write: &mut Write<'_>, cluster: ClusterId) -> Result<(), Error> {
    let orgs: Vec<(Uuid,)> = sqlx::query_as("select id from orgs where id <> $1 order by id")
        .bind(PLATFORM.uuid())
        .fetch_all(&mut *write.tx)
        .await?;
    for (org,) in orgs {
        write.enter(OrgId::from_uuid(org)).await?;
        let services: Vec<(Uuid,)> = sqlx::query_as(
            "select s.id from services s
             where s.cluster_id = $1 and s.deleted_at is null and s.desired <> 'deleted' and exists (
                 select from domains d
                 where d.service_id = s.id and d.verified_at is not null and d.deleted_at is null)",
        )
        .bind(cluster.uuid())
        .fetch_all(&mut *write.tx)
        .await?;
        write.wake_services(&services, cluster).await?;
    }
    write.enter(PLATFORM).await
}
