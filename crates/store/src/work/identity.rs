//! Cluster identity: another cluster behind the same address must not be taken for the known one.

use jiff::Timestamp;
use trueup_model::event::{ClusterReplaced, Fact, Source};
use trueup_model::id::ClusterId;

use crate::{Error, Worker, event};

/// Whether a cluster has the recorded identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// It has, or no identity was recorded before.
    Ours,
    /// It has another identity.
    Another {
        /// The recorded identity.
        known: String,
    },
}

impl Worker {
    /// Compares a cluster's identity with the recorded one, and records the first one.
    ///
    /// If `replaced`, the new identity is recorded with an event.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn recognise_cluster(
        &self,
        cluster: ClusterId,
        identity: &str,
        replaced: bool,
        now: Timestamp,
    ) -> Result<Recognised, Error> {
        let mut tx = self.begin().await?;
        let (name, known): (String, Option<String>) =
            sqlx::query_as("select name, identity from clusters where id = $1 for update")
                .bind(cluster.uuid())
                .fetch_one(&mut *tx)
                .await?;
        match known {
            Some(known) if known == identity => return Ok(Recognised::Ours),
            Some(known) if !replaced => return Ok(Recognised::Another { known }),
            Some(before) => {
                let fact = Fact::ClusterReplaced(ClusterReplaced {
                    cluster: name,
                    before,
                    now: identity.to_owned(),
                });
                event::record(&mut tx, &[event::of_platform(fact, Source::System, now)]).await?;
            }
            None => {}
        }
        sqlx::query("update clusters set identity = $2 where id = $1")
            .bind(cluster.uuid())
            .bind(identity)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Recognised::Ours)
    }
}
