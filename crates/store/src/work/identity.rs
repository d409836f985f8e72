//! Which cluster it is: one that is taken for another would prove what is not true.

use jiff::Timestamp;
use trueup_model::event::{Fact, Source};
use trueup_model::id::ClusterId;

use crate::{Error, Worker, event};

/// Whether the cluster that answers is the one that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// It is, or is the first one that anybody asked.
    Ours,
    /// It is another one.
    Another {
        /// The one that is known.
        known: String,
    },
}

impl Worker {
    /// Compares what a cluster says of itself with what is known, which is what the first one said. If it
    /// was replaced on purpose, the new one is known from now on.
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
                let fact =
                    Fact::ClusterReplaced { cluster: name, before, now: identity.to_owned() };
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
