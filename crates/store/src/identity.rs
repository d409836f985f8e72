//! Which cluster it is: one that is taken for another would prove what is not true.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::ClusterId;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;

use crate::mint::mint;
use crate::pool::Tx;
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
            Some(before) => tell(&mut tx, name, before, identity, now).await?,
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

async fn tell(
    tx: &mut Tx,
    cluster: String,
    before: String,
    identity: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let told = NewEvent {
        id: mint(now),
        org: PLATFORM,
        source: Source::System,
        unit: Unit::Org(PLATFORM),
        generation: 0,
        at: now,
        fact: Fact::ClusterReplaced { cluster, before, now: identity.to_owned() },
        trace: None,
        cause: None,
    };
    event::record(tx, &[told]).await
}
