//! Compares acknowledged changes with what is stored.
//!
//! A generation number alone proves nothing: if an acknowledged change is lost, the next one gets
//! the same number. So the content of each request is kept and compared with the release stored
//! under the acknowledged generation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use trueup_api::Client;
use trueup_api::client::{Accepted, Terms};
use trueup_api::release::Release;
use trueup_api::service::ServiceManifest;

use crate::load::web;
use crate::test_server::TestServer;

/// The maximum page size.
const PAGE: u32 = 1000;

/// The content of a change.
#[derive(Debug, Clone, PartialEq)]
struct Content {
    template: String,
    parameters: Map<String, Value>,
    desired: String,
}

/// A change and its acknowledged generation.
#[derive(Debug, Clone)]
struct Change {
    generation: i64,
    content: Content,
}

/// Every acknowledged change, by the service's id.
///
/// Changes are kept in a list and not by generation: two with the same number are both checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged {
    changes: BTreeMap<String, Vec<Change>>,
}

impl Acknowledged {
    /// Records that a declaration was accepted.
    pub(crate) fn put(&mut self, manifest: &ServiceManifest, answer: &Accepted) {
        let content = Content {
            template: manifest.template.clone(),
            parameters: manifest.parameters.clone(),
            desired: "active".to_owned(),
        };
        self.record(answer, content);
    }

    /// Records that a deletion was accepted; it keeps the declared content.
    pub(crate) fn deleted(&mut self, answer: &Accepted) {
        let service = &answer.service;
        let content = Content {
            template: service.template.clone(),
            parameters: service.parameters.clone(),
            desired: "deleted".to_owned(),
        };
        self.record(answer, content);
    }

    fn record(&mut self, answer: &Accepted, content: Content) {
        let (id, generation) = (answer.service.id.clone(), answer.service.generation);
        self.changes.entry(id).or_default().push(Change { generation, content });
    }

    /// How many changes were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.changes.values().map(Vec::len).sum()
    }

    /// Fails unless every acknowledged change is stored with its content.
    pub(crate) async fn verify(&self, client: &Client, project: &str) {
        let lost = self.lost(client, project).await;
        assert!(lost.is_empty(), "acknowledged changes were lost: {lost:#?}");
    }

    /// A message for each acknowledged change that is not stored under its generation.
    pub(crate) async fn lost(&self, client: &Client, project: &str) -> Vec<String> {
        let mut lost = Vec::new();
        for (service, changes) in &self.changes {
            let releases = releases(client, project, service).await;
            let generations: BTreeSet<i64> = releases.iter().map(|one| one.generation).collect();
            if !generations.iter().copied().eq(1..=i64::try_from(releases.len()).unwrap()) {
                lost.push(format!("{service}: the stored generations are {generations:?}"));
            }
            for Change { generation, content } in changes {
                let stored = releases.iter().find(|one| one.generation == *generation);
                match stored.map(content_of) {
                    Some(stored) if stored == *content => {}
                    Some(stored) => lost.push(format!(
                        "{service}: generation {generation} was acknowledged with {content:?}, \
                         but its release has {stored:?}"
                    )),
                    None => lost.push(format!(
                        "{service}: generation {generation} was acknowledged and has no release: \
                         {content:?}"
                    )),
                }
            }
        }
        lost
    }
}

fn content_of(release: &Release) -> Content {
    Content {
        template: release.template.clone(),
        parameters: release.parameters.clone(),
        desired: release.desired.to_string(),
    }
}

/// Every release of a service, newest first.
async fn releases(client: &Client, project: &str, service: &str) -> Vec<Release> {
    let (mut releases, mut before) = (Vec::new(), None);
    loop {
        let page = client.release_list(project, service, before, Some(PAGE)).await.unwrap();
        releases.extend(page.items);
        before = page.next;
        if before.is_none() {
            return releases;
        }
    }
}

/// Loses the newest change of each service, like a restore from an old backup.
const LOSE_THE_NEWEST: &str = "
    delete from releases r using services s
     where r.service_id = s.id and r.generation = s.generation;
    update services s
       set generation = r.generation, parameters = r.parameters, spec = r.spec
      from releases r
     where r.service_id = s.id and r.generation = s.generation - 1";

async fn declare(server: &TestServer, image: &str, acknowledged: &mut Acknowledged) -> i64 {
    let (client, manifest) = (server.client(), web(&json!({ "image": image })));
    let answer = client.service_put("shop", "web", &manifest, &Terms::PLAIN).await.unwrap();
    acknowledged.put(&manifest, &answer);
    answer.service.generation
}

#[tokio::test]
async fn f15_lost_change_is_found_although_its_generation_is_reused() {
    let server = TestServer::new().await;
    let mut acknowledged = Acknowledged::default();
    for (image, generation) in [("web:1", 1), ("web:2", 2), ("web:3", 3)] {
        assert_eq!(declare(&server, image, &mut acknowledged).await, generation);
    }
    assert_eq!(acknowledged.lost(&server.client(), "shop").await, [""; 0]);

    server.tamper(LOSE_THE_NEWEST).await;
    let lost = acknowledged.lost(&server.client(), "shop").await;
    let [only] = lost.as_slice() else { panic!("one change was lost: {lost:#?}") };
    assert!(only.contains("generation 3 was acknowledged and has no release"), "{only}");

    // From here on the generations are consistent: only the content differs.
    assert_eq!(declare(&server, "web:4", &mut acknowledged).await, 3);
    let lost = acknowledged.lost(&server.client(), "shop").await;
    let [only] = lost.as_slice() else { panic!("one change was lost: {lost:#?}") };
    for words in ["generation 3", "web:3", "web:4"] {
        assert!(only.contains(words), "`{words}` is not in {only}");
    }
    // The next change gets the next generation; the lost change stays lost.
    assert_eq!(declare(&server, "web:3", &mut acknowledged).await, 4);
    assert_eq!(acknowledged.lost(&server.client(), "shop").await.len(), 1);
}
