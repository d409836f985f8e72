//! The first cluster's identity is kept until an operator replaces it.

use trueup_model::org::PLATFORM;
use trueup_store::{EventQuery, Recognised};

use crate::stage::{Stage, at};

impl Stage {
    async fn recognise(&self, identity: &str, replaced: bool) -> Recognised {
        let worker = &self.db.worker;
        worker.recognise_cluster(self.db.cluster, identity, replaced, at(1)).await.unwrap()
    }

    async fn replacements(&self) -> usize {
        self.seal().await;
        let events =
            self.events(PLATFORM, EventQuery { limit: 100, ..EventQuery::default() }).await;
        events.iter().filter(|event| event.kind == "ClusterReplaced").count()
    }
}

#[tokio::test]
async fn another_cluster_is_not_recognised_until_it_is_replaced_on_purpose() {
    let stage = Stage::new().await;
    let another = |known: &str| Recognised::Another { known: known.to_owned() };
    assert_eq!(stage.recognise("one", false).await, Recognised::Ours);
    assert_eq!(stage.recognise("one", false).await, Recognised::Ours);
    assert_eq!(stage.recognise("two", false).await, another("one"));
    assert_eq!(stage.recognise("one", true).await, Recognised::Ours, "nothing was replaced");
    assert_eq!(stage.replacements().await, 0);
    assert_eq!(stage.recognise("two", true).await, Recognised::Ours);
    assert_eq!(stage.recognise("two", true).await, Recognised::Ours, "once is enough");
    assert_eq!(stage.recognise("one", false).await, another("two"));
    assert_eq!(stage.replacements().await, 1);
}
