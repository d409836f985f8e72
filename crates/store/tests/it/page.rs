//! Lists: pages of any size add up to the whole, and each filter selects the right services.

use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase};
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::{ServiceFilter, ServiceOrder, ServicePosition, ServiceRow};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::stage::{Stage, at, converged};

impl Stage {
    async fn page(
        &self,
        filter: &ServiceFilter,
        after: Option<&ServicePosition>,
        limit: i64,
    ) -> Vec<ServiceRow> {
        self.db
            .app
            .list_services(self.db.org, filter, (ServiceOrder::default(), after), limit, at(9))
            .await
            .unwrap()
    }

    async fn names(&self, filter: &ServiceFilter) -> Vec<String> {
        let rows = self.page(filter, None, 100).await;
        rows.into_iter().map(|row| row.service.name.to_string()).collect()
    }
}

#[tokio::test]
async fn pages_of_any_size_add_up_to_the_whole_list() {
    let stage = Stage::new().await;
    for service in ["web", "api", "b", "worker", "a"] {
        stage.declare(service, "shop:1").await;
    }
    let everything = ServiceFilter::default();
    let whole = stage.names(&everything).await;
    assert_eq!(whole, ["a", "api", "b", "web", "worker"]);
    for size in 1..=6 {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let rows = stage.page(&everything, after.as_ref(), size).await;
            let Some(last) = rows.last() else { break };
            after = Some(ServicePosition::after(last, ServiceOrder::default()));
            listed.extend(rows.into_iter().map(|row| row.service.name.to_string()));
        }
        assert_eq!(listed, whole, "pages of {size}");
    }
}

#[tokio::test]
async fn each_filter_selects_the_matching_services() {
    let stage = Stage::new().await;
    let web = stage.declare("web", "shop:1").await.row;
    stage.declare("web-two", "shop:1").await;
    stage.declare("api", "shop:1").await;
    stage.act("api", &ServiceOperation::Pause).await.unwrap();
    stage.act("web-two", &ServiceOperation::Resize { plan: name("large") }).await.unwrap();
    let lease = stage.lease().await;
    stage.db.worker.record_reports(lease, &[converged(&web, 1)], at(3)).await.unwrap();
    stage.db.record_heartbeat(at(9)).await;

    let all = ServiceFilter::default;
    let table = [
        (ServiceFilter { search: Some("web".to_owned()), ..all() }, vec!["web", "web-two"]),
        (ServiceFilter { search: Some("_".to_owned()), ..all() }, vec![]),
        (ServiceFilter { search: Some("%".to_owned()), ..all() }, vec![]),
        (ServiceFilter { template: Some(name("web")), ..all() }, vec!["api", "web", "web-two"]),
        (ServiceFilter { template: Some(name("minecraft")), ..all() }, vec![]),
        (ServiceFilter { plan: Some(name("large")), ..all() }, vec!["web-two"]),
        (ServiceFilter { desired: Some(DesiredState::Paused), ..all() }, vec!["api"]),
        (ServiceFilter { phase: Some(Phase::Running), ..all() }, vec!["web"]),
        (ServiceFilter { health: Some(Health::Healthy), ..all() }, vec!["web"]),
        (ServiceFilter { health: Some(Health::Unknown), ..all() }, vec!["api", "web-two"]),
        (
            ServiceFilter { project: Some(web.service.project), ..all() },
            vec!["api", "web", "web-two"],
        ),
    ];
    for (filter, expected) in table {
        assert_eq!(stage.names(&filter).await, expected, "{filter:?}");
    }
    stage.db.record_heartbeat(at(9 - 46)).await;
    let healthy = ServiceFilter { health: Some(Health::Healthy), ..all() };
    assert_eq!(
        stage.names(&healthy).await,
        Vec::<String>::new(),
        "nothing is shown as healthy now"
    );
}

#[tokio::test]
async fn a_search_finds_the_same_with_and_without_the_index() {
    let stage = Stage::new().await;
    for service in ["web", "web-two", "api", "a"] {
        stage.declare(service, "shop:1").await;
    }
    for (text, found) in [
        ("web", vec!["web", "web-two"]),
        ("eb-", vec!["web-two"]),
        ("we", vec!["web", "web-two"]),
        ("a", vec!["a", "api"]),
        ("b_t", vec![]),
        ("%eb", vec![]),
    ] {
        let search = ServiceFilter { search: Some(text.to_owned()), ..ServiceFilter::default() };
        assert_eq!(stage.names(&search).await, found, "{text}");
    }
}
