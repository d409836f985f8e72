//! Shared setup: a database with a project, a principal, and the owner's view of the rows, which
//! row-level security does not restrict.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use trueup_model::OrgId;
use trueup_model::drift::DriftPolicy;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Observation, Sighting, WorkloadSeen};
use trueup_model::order::Unit;
use trueup_model::principal::Principal;
use trueup_model::receipt::{Absence, Reading, Receipt};
use trueup_model::report::{Outcome, Report};
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Accepted, Refusal, RequestContext, ServiceRequest};
use trueup_store::{EventQuery, Lease, SealedEvent, ServiceFilter, ServiceOrder, ServiceRow};
use trueup_testkit::test_db::{TestDb, name};
use uuid::Uuid;

/// The project of each stage.
pub(crate) const PROJECT: &str = "shop";

/// The time this many seconds into a test.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A web service of this image.
pub(crate) fn web(image: &str) -> AdmissionRequest {
    AdmissionRequest {
        template: "web@1".parse().unwrap(),
        plan: None,
        parameters: Map::from_iter([("image".to_owned(), json!(image))]),
        drift: DriftPolicy::default(),
        active: None,
    }
}

pub(crate) fn unit(row: &ServiceRow) -> Unit {
    Unit::Service(row.service.id)
}

pub(crate) struct Stage {
    pub(crate) db: TestDb,
    pub(crate) owner: PgPool,
    pub(crate) principal: Principal,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let db = TestDb::new().await;
        let owner = PgPoolOptions::new().max_connections(2).connect(&db.urls.owner).await.unwrap();
        let principal = db.owner();
        let stage = Self { db, owner, principal };
        stage.project(stage.db.org).await;
        stage
    }

    pub(crate) fn context(&self) -> RequestContext<'_> {
        RequestContext::new(&self.principal, Some("0af7651916cd43dd8448eb211c80319c".to_owned()))
    }

    pub(crate) async fn project(&self, org: OrgId) {
        let accepted = self
            .db
            .app
            .accept_project(org, &name(PROJECT), &DriftPolicy::default(), &self.context(), at(0))
            .await
            .unwrap();
        assert!(accepted.changed);
    }

    /// Declares a service and returns the result.
    pub(crate) async fn try_declare(
        &self,
        service: &str,
        request: &AdmissionRequest,
        if_generation: Option<i64>,
        seconds: i64,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let name = name(service);
        let wanted = ServiceRequest::declare(PROJECT, &name, request).if_generation(if_generation);
        let app = &self.db.app;
        app.accept_service(self.db.org, &wanted, &self.context(), at(seconds)).await
    }

    /// Declares a web service, which must be accepted.
    pub(crate) async fn declare(&self, service: &str, image: &str) -> Accepted<ServiceRow> {
        self.try_declare(service, &web(image), None, 1).await.unwrap()
    }

    pub(crate) async fn delete(&self, service: &str) -> Result<Accepted<ServiceRow>, Refusal> {
        self.act(service, &ServiceOperation::Delete).await
    }

    /// Performs an operation on a service.
    pub(crate) async fn act(
        &self,
        service: &str,
        action: &ServiceOperation,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let wanted = ServiceRequest::act(PROJECT, service, action);
        self.db.app.accept_service(self.db.org, &wanted, &self.context(), at(2)).await
    }

    /// The services of an org that are not deleted.
    pub(crate) async fn services(&self, org: OrgId) -> Vec<ServiceRow> {
        let everything = ServiceFilter::default();
        self.db
            .app
            .list_services(org, &everything, (ServiceOrder::default(), None), 10_000, at(9))
            .await
            .unwrap()
    }

    pub(crate) async fn find(&self, service: &str) -> Option<ServiceRow> {
        let app = &self.db.app;
        let found = app.find_service(self.db.org, PROJECT, service).await;
        found.unwrap().map(|detail| detail.row)
    }

    pub(crate) async fn lease(&self) -> Lease {
        let worker = &self.db.worker;
        let lease = worker.acquire_lease(self.db.cluster, "one", None, at(0)).await;
        lease.unwrap().ours().unwrap()
    }

    /// How many rows each table has.
    pub(crate) async fn rows(&self) -> BTreeMap<String, i64> {
        let count = |table: &String| format!("select '{table}', count(*) from {table}");
        let counts: Vec<String> = self.tables().await.iter().map(count).collect();
        let counts = AssertSqlSafe(counts.join(" union all "));
        let rows: Vec<(String, i64)> = sqlx::query_as(counts).fetch_all(&self.owner).await.unwrap();
        rows.into_iter().collect()
    }

    pub(crate) async fn tables(&self) -> Vec<String> {
        self.all("select tablename::text from pg_tables where schemaname = 'public' order by 1")
            .await
    }

    /// The tables that grew, and by how much.
    pub(crate) async fn grown(&self, before: &BTreeMap<String, i64>) -> Vec<(String, i64)> {
        let after = self.rows().await;
        after
            .into_iter()
            .map(|(table, count)| (table.clone(), count - before[&table]))
            .filter(|(_, grown)| *grown != 0)
            .collect()
    }

    /// The only value of the only row, as the owner sees it.
    pub(crate) async fn one<T>(&self, statement: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres>
            + sqlx::Type<sqlx::Postgres>
            + Send
            + Unpin
            + 'static,
    {
        sqlx::query_scalar(AssertSqlSafe(statement.to_owned()))
            .fetch_one(&self.owner)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// The first column of every row, as the owner sees it.
    pub(crate) async fn all<T>(&self, statement: &str) -> Vec<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres>
            + sqlx::Type<sqlx::Postgres>
            + Send
            + Unpin
            + 'static,
    {
        sqlx::query_scalar(AssertSqlSafe(statement.to_owned()))
            .fetch_all(&self.owner)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// A service's events by type, as recorded.
    pub(crate) async fn events_of(&self, service: Uuid) -> Vec<String> {
        self.all(&format!(
            "select e.type from events e join event_queue q on q.event_id = e.id
             where e.subject_id = '{service}' order by q.seq"
        ))
        .await
    }

    /// Seals everything.
    pub(crate) async fn seal(&self) {
        self.db.seal().await;
    }

    pub(crate) async fn sealed(&self, org: OrgId) -> Vec<SealedEvent> {
        self.events(org, EventQuery::default()).await
    }

    /// Sealed events of a query; at most 10,000 if it has no limit.
    pub(crate) async fn events(&self, org: OrgId, query: EventQuery) -> Vec<SealedEvent> {
        let limit = if query.limit == 0 { 10_000 } else { query.limit };
        self.db.app.list_events(org, &EventQuery { limit, ..query }).await.unwrap()
    }
}

/// An executor's observation of a service with this many ready pods.
pub(crate) fn seen(row: &ServiceRow, generation: i64, ready: u32) -> Observation {
    let key = ResourceKey::new(Kind::Deployment, &row.namespace, &row.service.object_name);
    Observation {
        generation,
        applied: true,
        objects: vec![Sighting {
            key,
            uid: "uid-1".to_owned(),
            resource_version: "7".to_owned(),
            terminating: false,
            bound: None,
            route: None,
            certificate: None,
        }],
        workload: Some(WorkloadSeen {
            wanted: 1,
            existing: 1,
            updated: 1,
            ready,
            current: true,
            runs: None,
            stuck: None,
        }),
        pods: Vec::new(),
        missing: Vec::new(),
        divergences: Vec::new(),
        as_of: at(3),
    }
}

/// The report of a pass that found the service converged on this generation.
pub(crate) fn converged(row: &ServiceRow, generation: i64) -> Report {
    Report {
        unit: unit(row),
        org: row.service.org,
        generation,
        observation: Some(seen(row, generation, 1)),
        outcome: Outcome::Converged,
        changes: Vec::new(),
        receipt: None,
        survey: None,
    }
}

/// The report of a pass that verified a service's absence.
pub(crate) fn gone(row: &ServiceRow, generation: i64) -> Report {
    let key = ResourceKey::new(Kind::Deployment, &row.namespace, &row.service.object_name);
    let nothing = Observation {
        objects: Vec::new(),
        workload: None,
        applied: false,
        ..seen(row, generation, 0)
    };
    let absence = Absence { key, uid: None, resource_version: None };
    let reading = Reading { began_at: at(4), ended_at: at(5) };
    Report {
        observation: Some(nothing),
        receipt: Some(Receipt::of_absence(vec![absence], "one", vec![reading])),
        survey: None,
        ..converged(row, generation)
    }
}
