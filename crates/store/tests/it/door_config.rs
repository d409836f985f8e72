//! Setting variables and secrets: an accepted change of every service that reads them, all or
//! nothing.

use serde_json::{Map, json};
use trueup_model::event::{Fact, VariableSet};
use trueup_model::order::{Body, Order, SecretValue, Unit};
use trueup_model::secret::Secret;
use trueup_model::variable::{MAX_VALUE, Variable, VariableName};
use trueup_rules::admit::variable::{MOST_ENTRIES, MOST_TOGETHER};
use trueup_rules::admit::{AdmissionRequest, Refused};
use trueup_rules::envelope::{Encryptor, Keyring};
use trueup_store::door::{Accepted, EntryKind, EntryRequest, Refusal, SecretRequest};
use trueup_testkit::report_batch::RecordReports as _;

use crate::stage::{PROJECT, Stage, at, gone, web};

pub(crate) fn encryptor() -> Encryptor {
    Keyring::new(&[7; 32]).encryptor()
}

impl Stage {
    pub(crate) async fn set_variable(
        &self,
        service: Option<&str>,
        name: &str,
        value: &str,
    ) -> Result<Accepted<Variable>, Refusal> {
        let name: VariableName = name.parse().unwrap();
        let wanted = EntryRequest { project: PROJECT, service, name: &name, if_version: None };
        self.db.app.set_variable(self.db.org, &wanted, value, &self.context(), at(3)).await
    }

    pub(crate) async fn set_secret(
        &self,
        service: Option<&str>,
        name: &str,
        value: &str,
    ) -> Result<Accepted<Secret>, Refusal> {
        let name: VariableName = name.parse().unwrap();
        let entry = EntryRequest { project: PROJECT, service, name: &name, if_version: None };
        let value = SecretValue::new(value.to_owned());
        let wanted = SecretRequest { entry, value: &value, encryptor: &encryptor() };
        self.db.app.set_secret(self.db.org, &wanted, &self.context(), at(3)).await
    }

    pub(crate) async fn delete_variable(
        &self,
        service: Option<&str>,
        name: &str,
    ) -> Result<(), Refusal> {
        let name: VariableName = name.parse().unwrap();
        let wanted = EntryRequest { project: PROJECT, service, name: &name, if_version: None };
        self.db
            .app
            .delete_entry(self.db.org, EntryKind::Variable, &wanted, &self.context(), at(3))
            .await
    }

    pub(crate) async fn delete_secret(
        &self,
        service: Option<&str>,
        name: &str,
    ) -> Result<(), Refusal> {
        let name: VariableName = name.parse().unwrap();
        let wanted = EntryRequest { project: PROJECT, service, name: &name, if_version: None };
        self.db
            .app
            .delete_entry(self.db.org, EntryKind::Secret, &wanted, &self.context(), at(3))
            .await
    }

    /// The generations of the services, by name.
    pub(crate) async fn generations(&self) -> Vec<String> {
        self.all("select name || ' ' || generation from services order by name").await
    }

    /// The order that the driver gets for a service.
    pub(crate) async fn order_of(&self, service: &str) -> Order {
        let row = self.find(service).await.unwrap();
        let lease = self.lease().await;
        self.db.worker.wake_all(self.db.cluster, at(4)).await.unwrap();
        let orders = self.db.worker.claim_orders(lease, 100, at(4)).await.unwrap();
        let unit = Unit::Service(row.service.id);
        orders.into_iter().map(|(_, order)| order).find(|order| order.unit == unit).unwrap()
    }
}

/// The fields that a refusal names.
pub(crate) fn fields(refusal: Refusal) -> Vec<String> {
    match refusal {
        Refusal::Refused(Refused::Invalid(errors)) => {
            errors.into_iter().map(|field_error| field_error.field).collect()
        }
        other => panic!("expected a field error, not {other:?}"),
    }
}

/// A service whose template generates the secret `RCON_PASSWORD`.
pub(crate) fn minecraft() -> AdmissionRequest {
    AdmissionRequest {
        template: "minecraft@1".parse().unwrap(),
        parameters: Map::new(),
        ..web("nginx:1")
    }
}

#[tokio::test]
async fn setting_for_a_service_is_one_accepted_change() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.declare("other", "nginx:1").await;
    let before = stage.rows().await;
    let set = stage.set_variable(Some("web"), "GREETING", "hello").await.unwrap();
    assert!(set.changed);
    assert_eq!((set.row.version, set.row.set_by.as_str()), (1, "owner"));
    let grown: Vec<(String, i64)> =
        [("event_queue", 2), ("events", 2), ("releases", 1), ("usage_marks", 1), ("variables", 1)]
            .map(|(table, count)| (table.to_owned(), count))
            .to_vec();
    assert_eq!(stage.grown(&before).await, grown);
    assert_eq!(stage.generations().await, ["other 1", "web 2"]);
    let id = row.service.id.uuid();
    assert_eq!(stage.events_of(id).await, ["ServiceQueued", "ServiceQueued", "VariableSet"]);
    let body: serde_json::Value =
        stage.one("select body from events where type = 'VariableSet'").await;
    let fact: Fact = serde_json::from_value(body).unwrap();
    let (name, principal) = ("GREETING".to_owned(), stage.principal.id.to_string());
    assert_eq!(fact, Fact::VariableSet(VariableSet { name, version: 1, principal }));

    // Idempotent: the same value again is no change.
    let before = stage.rows().await;
    let again = stage.set_variable(Some("web"), "GREETING", "hello").await.unwrap();
    assert!(!again.changed);
    assert_eq!(again.row, set.row);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.generations().await, ["other 1", "web 2"]);
}

#[tokio::test]
async fn a_project_entry_changes_exactly_the_services_that_read_it() {
    let stage = Stage::new().await;
    for service in ["a", "b", "c", "d", "gone"] {
        stage.declare(service, "nginx:1").await;
    }
    let shadow = AdmissionRequest {
        parameters: Map::from_iter([
            ("image".to_owned(), json!("nginx:1")),
            ("variables".to_owned(), json!({"COLOUR": "of the manifest"})),
        ]),
        ..web("nginx:1")
    };
    stage.try_declare("b", &shadow, None, 2).await.unwrap();
    stage.set_variable(Some("c"), "COLOUR", "of the service").await.unwrap();
    stage.delete("gone").await.unwrap();
    assert_eq!(stage.generations().await, ["a 1", "b 2", "c 2", "d 1", "gone 2"]);

    stage.set_secret(None, "COLOUR", "of the project").await.unwrap();
    assert_eq!(stage.generations().await, ["a 2", "b 2", "c 2", "d 2", "gone 2"]);
    let releases: i64 = stage.one("select count(*) from releases where generation = 2").await;
    assert_eq!(releases, 5, "each new generation has its release");
    stage.delete_secret(None, "COLOUR").await.unwrap();
    assert_eq!(stage.generations().await, ["a 3", "b 2", "c 2", "d 3", "gone 2"]);
    let kinds: Vec<String> = stage
        .all(
            "select e.type || ' ' || e.subject_kind from events e
             join event_queue q on q.event_id = e.id where e.type like 'Secret%' order by q.seq",
        )
        .await;
    assert_eq!(kinds, ["SecretSet project", "SecretDeleted project"]);
}

#[tokio::test]
async fn versions_continue_after_a_deletion() {
    let stage = Stage::new().await;
    for (value, version) in [("one", 1), ("two", 2)] {
        assert_eq!(stage.set_variable(None, "A", value).await.unwrap().row.version, version);
        assert_eq!(stage.set_secret(None, "B", value).await.unwrap().row.version, version);
    }
    stage.delete_variable(None, "A").await.unwrap();
    stage.delete_secret(None, "B").await.unwrap();
    let app = &stage.db.app;
    assert_eq!(app.list_variables(stage.db.org, PROJECT, None).await.unwrap(), Some(vec![]));
    assert_eq!(app.list_secrets(stage.db.org, PROJECT, None).await.unwrap(), Some(vec![]));
    let left: i64 = stage.one("select count(sealed) + count(nonce) from secrets").await;
    assert_eq!(left, 0, "nothing of the value is left");
    for again in [stage.delete_variable(None, "A").await, stage.delete_secret(None, "B").await] {
        assert!(matches!(again, Err(Refusal::NotFound(_))), "{again:?}");
    }
    assert_eq!(stage.set_variable(None, "A", "two").await.unwrap().row.version, 4);
    assert_eq!(stage.set_secret(None, "B", "two").await.unwrap().row.version, 4);
}

#[tokio::test]
async fn a_refused_entry_records_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.try_declare("game", &minecraft(), None, 1).await.unwrap();
    stage.set_variable(None, "PLAIN", "a").await.unwrap();
    stage.set_secret(None, "HIDDEN", "a").await.unwrap();
    let before = stage.rows().await;

    for scope in [None, Some("game")] {
        let refused = stage.set_variable(scope, "RCON_PASSWORD", "canary").await.unwrap_err();
        assert!(!format!("{refused:?}").contains("canary"));
        assert_eq!(fields(refused), ["name"], "the template generates it");
        let refused = stage.set_secret(scope, "RCON_PASSWORD", "canary").await.unwrap_err();
        assert!(!format!("{refused:?}").contains("canary"));
        assert_eq!(fields(refused), ["name"]);
    }
    let refused = stage.set_secret(None, "PLAIN", "b").await.unwrap_err();
    assert_eq!(fields(refused), ["name"], "it is a variable");
    let refused = stage.set_variable(None, "HIDDEN", "b").await.unwrap_err();
    assert_eq!(fields(refused), ["name"], "it is a secret");
    for bad in ["a\0b".to_owned(), "x".repeat(MAX_VALUE + 1)] {
        assert_eq!(fields(stage.set_variable(None, "A", &bad).await.unwrap_err()), ["value"]);
        assert_eq!(fields(stage.set_secret(None, "A", &bad).await.unwrap_err()), ["value"]);
    }
    let nowhere = stage.set_variable(Some("nothing"), "A", "b").await;
    assert!(matches!(nowhere, Err(Refusal::NotFound("service"))));
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.generations().await, ["game 3", "web 3"]);

    stage.delete("web").await.unwrap();
    let late = stage.set_variable(Some("web"), "A", "b").await;
    assert!(matches!(late, Err(Refusal::Refused(Refused::BeingDeleted))));
}

#[tokio::test]
async fn entries_are_limited_in_number_and_size() {
    let stage = Stage::new().await;
    for number in 0..MOST_ENTRIES {
        stage.set_variable(None, &format!("V{number}"), "").await.unwrap();
    }
    let refused = stage.set_variable(None, "ONE_MORE", "").await.unwrap_err();
    assert_eq!(fields(refused), ["name"]);
    stage.set_variable(None, "V0", "").await.unwrap();

    // For a project, which has no services yet, and for a service.
    let large = "x".repeat(MAX_VALUE);
    for service in [None, Some("web")] {
        if service.is_some() {
            stage.declare("web", "nginx:1").await;
        }
        for number in 0..MOST_TOGETHER / MAX_VALUE {
            stage.set_variable(service, &format!("V{number}"), &large).await.unwrap();
        }
        let before = stage.rows().await;
        let refused = stage.set_variable(service, "V100", "x").await.unwrap_err();
        assert_eq!(fields(refused), ["value"]);
        assert_eq!(stage.grown(&before).await, []);
        stage.set_variable(service, "V1", "less").await.unwrap();
        stage.set_variable(service, "V100", "x").await.unwrap();
    }
}

/// Regression test: whichever statement fails, nothing is recorded, and the request can be retried.
#[tokio::test]
async fn a_failure_at_any_statement_leaves_nothing() {
    let stage = Stage::new().await;
    stage.declare("a", "nginx:1").await;
    stage.declare("b", "nginx:1").await;
    stage.set_secret(None, "FIRST", "makes the org's key").await.unwrap();
    run(
        &stage,
        "create function broken() returns trigger language plpgsql
         as $$ begin raise exception 'broken'; end $$",
    )
    .await;
    let before = (stage.rows().await, stage.generations().await);
    for table in ["variables", "secrets", "releases", "events", "event_queue", "wakes"] {
        // Deferred to the commit, where the transaction can still fail as a whole.
        run(
            &stage,
            &format!(
                "create constraint trigger broken after insert or update on {table}
                 deferrable initially deferred for each row execute function broken()"
            ),
        )
        .await;
        if table != "secrets" {
            let refused = stage.set_variable(None, "A", "b").await;
            assert!(matches!(refused, Err(Refusal::Store(_))), "{table}: {refused:?}");
        }
        if table != "variables" {
            let refused = stage.set_secret(None, "B", "canary").await;
            assert!(matches!(refused, Err(Refusal::Store(_))), "{table}: {refused:?}");
            assert!(!format!("{refused:?}").contains("canary"));
        }
        run(&stage, &format!("drop trigger broken on {table}")).await;
        let after = (stage.rows().await, stage.generations().await);
        assert_eq!(after, before, "{table}");
    }
    assert_eq!(stage.set_variable(None, "A", "b").await.unwrap().row.version, 1);
    assert_eq!(stage.set_secret(None, "B", "b").await.unwrap().row.version, 1);
}

async fn run(stage: &Stage, statement: &str) {
    let statement = sqlx::AssertSqlSafe(statement.to_owned());
    sqlx::raw_sql(statement).execute(&stage.owner).await.unwrap();
}

#[tokio::test]
async fn concurrent_changes_of_a_project_and_its_services_all_happen() {
    let stage = Stage::new().await;
    for service in ["a", "b", "c"] {
        stage.declare(service, "nginx:1").await;
    }
    let mut all = Vec::new();
    for round in 0..6 {
        for service in [None, Some("a"), Some("b"), Some("c")] {
            let stage = &stage;
            all.push(async move {
                let name = format!("N{round}");
                stage.set_variable(service, &name, "x").await.map(|set| set.changed)
            });
        }
    }
    for done in futures::future::join_all(all).await {
        assert!(done.unwrap());
    }
    let count: i64 = stage.one("select count(*) from variables").await;
    assert_eq!(count, 24);
    let newest: Vec<i64> =
        stage.all("select max(generation) from releases group by service_id order by 1").await;
    let generations: Vec<i64> = stage.all("select generation from services order by 1").await;
    assert_eq!(newest, generations, "each generation has one release, and none is lost");
}

#[tokio::test]
async fn a_service_declared_while_a_project_changes_reads_the_change() {
    let stage = Stage::new().await;
    for round in 0..8 {
        let (service, name) = (format!("web-{round}"), format!("N{round}"));
        let declared = stage.declare(&service, "nginx:1");
        let set = stage.set_variable(None, &name, "x");
        let (_, set) = tokio::join!(declared, set);
        set.unwrap();
        // Either the service got a new generation, or its first order has the variable.
        let order = stage.order_of(&service).await;
        let Body::Service(body) = &order.body else { panic!("a service") };
        assert_eq!(body.spec.variables[&name], "x");
        let generation = stage.find(&service).await.unwrap().service.generation;
        assert_eq!(order.generation, generation);
    }
}

#[tokio::test]
async fn entries_of_a_service_are_deleted_once_its_absence_is_verified() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.set_variable(Some("web"), "A", "b").await.unwrap();
    stage.set_secret(Some("web"), "B", "b").await.unwrap();
    stage.set_secret(None, "SHARED", "b").await.unwrap();
    let row = stage.delete("web").await.unwrap().row;
    let counts = "select (select count(*) from variables) + (select count(*) from secrets)";
    assert_eq!(stage.one::<i64>(counts).await, 3, "accepting the deletion removes nothing yet");
    let lease = stage.lease().await;
    let report = gone(&row, row.service.generation);
    stage.db.worker.record_reports(lease, &[report], at(6)).await.unwrap();
    let left: Vec<String> = stage.all("select name from secrets").await;
    assert_eq!(left, ["SHARED"]);
    assert_eq!(stage.one::<i64>(counts).await, 1);
}
