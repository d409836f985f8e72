//! Looks into DNS: each is taken once, by whom there is place for, and touches its own org alone.

use trueup_model::domain::Saw;
use trueup_model::id::OrgId;
use trueup_store::DueLook;

use crate::stage::{Stage, at};

impl Stage {
    async fn due(&self, most: i64, of_one: i64, without: &[OrgId], seconds: i64) -> Vec<DueLook> {
        self.db.worker.claim_looks(most, of_one, without, at(seconds)).await.unwrap()
    }
}

#[tokio::test]
async fn a_look_is_taken_once_and_the_next_one_is_due_then() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    assert_eq!(stage.db.worker.next_look().await.unwrap(), None);
    let added = stage.add(stage.db.org, "web", "www.example.org").await.unwrap().row;
    assert_eq!(stage.db.worker.next_look().await.unwrap(), Some(at(13)));
    assert_eq!(stage.due(8, 4, &[], 12).await, []);
    assert_eq!(stage.due(8, 4, &[stage.db.org], 13).await, []);
    let (one, other) = tokio::join!(stage.due(8, 4, &[], 13), stage.due(8, 4, &[], 13));
    let taken: Vec<DueLook> = one.into_iter().chain(other).collect();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!((taken[0].org, taken[0].domain), (stage.db.org, added.id));
    assert_eq!(stage.db.worker.next_look().await.unwrap(), Some(at(23)));
    // What was seen is shown, and is not news for anybody else.
    stage.db.worker.note_look(&taken[0], Saw::Nothing, "no TXT record yet", at(14)).await.unwrap();
    let shown = stage.db.app.list_domains(stage.db.org, "shop").await.unwrap().unwrap();
    let last = shown[0].search.last.clone().unwrap();
    assert_eq!((last.at, last.saw, last.why.as_str()), (at(14), Saw::Nothing, "no TXT record yet"));
    assert_eq!(shown[0].search.next_at, Some(at(23)));
}

#[tokio::test]
async fn an_org_with_many_gets_its_share_and_no_more() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let ours = stage.db.org;
    for number in 0..10 {
        stage.add(ours, "web", &format!("h{number}.example.org")).await.unwrap();
    }
    let theirs = stage.others().await;
    stage.add(theirs, "web", "theirs.example.org").await.unwrap();
    let taken = stage.due(8, 4, &[], 20).await;
    let own = taken.iter().filter(|look| look.org == ours).count();
    assert_eq!((own, taken.len()), (4, 5));
    assert_eq!(stage.due(3, 4, &[ours], 20).await, []);
    assert_eq!(stage.due(3, 4, &[], 20).await.len(), 3);
}

/// The index fits the question: what is not due is not read.
#[tokio::test]
async fn what_is_due_is_found_by_its_index() {
    let stage = Stage::new().await;
    let index: String =
        stage.one("select indexdef from pg_indexes where indexname = 'domains_due'").await;
    assert!(index.contains("(look_at) WHERE ((look_at IS NOT NULL)"), "{index}");
}
