//! Sets the routing of clusters.

use jiff::Timestamp;
use trueup_model::cluster::Routing;
use trueup_model::event::Fact;
use trueup_model::org::PLATFORM;

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::row::json;
use crate::{App, ClusterRow};

impl App {
    /// Sets the routing of a cluster; returns whether it changed.
    ///
    /// Each service gets it with its next order.
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
        let fact = Fact::RoutingChanged {
            cluster: cluster.name.clone(),
            routing: routing.clone(),
            principal: write.principal(),
        };
        write.record(fact).await?;
    }
    write.finish(changed).await
}
