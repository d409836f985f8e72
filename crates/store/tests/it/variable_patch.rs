//! Several variables in one request: all or none, and one generation for each service.

use std::collections::BTreeMap;

use futures::future::join_all;
use trueup_model::variable::{MAX_VALUE, Variable, VariableName};
use trueup_rules::admit::variable::{MOST_ENTRIES, MOST_TOGETHER};
use trueup_store::IdempotencyKey;
use trueup_store::door::{Accepted, Refusal, RequestContext, VariablePatch};

use crate::door_config::{fields, minecraft};
use crate::stage::{PROJECT, Stage, at};

/// Values to set, by name.
type Values = BTreeMap<VariableName, String>;

fn values<T: AsRef<str>>(pairs: impl IntoIterator<Item = (T, T)>) -> Values {
    let pairs = pairs.into_iter();
    pairs.map(|(name, value)| (name.as_ref().parse().unwrap(), value.as_ref().to_owned())).collect()
}

fn names(texts: &[&str]) -> Vec<VariableName> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

impl Stage {
    async fn patch_with(
        &self,
        service: Option<&str>,
        set: &Values,
        delete: &[&str],
        context: &RequestContext<'_>,
    ) -> Result<Accepted<Vec<Variable>>, Refusal> {
        let delete = names(delete);
        let wanted = VariablePatch { project: PROJECT, service, set, delete: &delete };
        self.db.app.patch_variables(self.db.org, &wanted, context, at(3)).await
    }

    async fn patch(
        &self,
        service: Option<&str>,
        set: &[(&str, &str)],
        delete: &[&str],
    ) -> Result<Accepted<Vec<Variable>>, Refusal> {
        let set = values(set.iter().copied());
        self.patch_with(service, &set, delete, &self.context()).await
    }

    /// Types and subjects of the events about variables, as recorded.
    async fn variable_events(&self) -> Vec<String> {
        self.all(
            "select e.type || ' ' || (e.body ->> 'name') || ' ' || e.subject_kind from events e
             join event_queue q on q.event_id = e.id
             where e.type like 'Variable%' order by q.seq",
        )
        .await
    }
}

/// Name, value and version of each.
fn shown(variables: &[Variable]) -> Vec<String> {
    let line = |one: &Variable| format!("{}={} v{}", one.name, one.value, one.version);
    variables.iter().map(line).collect()
}

#[tokio::test]
async fn several_names_are_one_generation_of_each_service_and_one_event_each() {
    let stage = Stage::new().await;
    for service in ["api", "web"] {
        stage.declare(service, "nginx:1").await;
    }
    stage.set_variable(None, "OLD", "a").await.unwrap();
    stage.set_variable(None, "SAME", "a").await.unwrap();
    assert_eq!(stage.generations().await, ["api 3", "web 3"]);
    let events = stage.variable_events().await.len();

    let before = stage.rows().await;
    let set = [("SAME", "a"), ("ONE", "1"), ("TWO", "2"), ("THREE", "3")];
    let patched = stage.patch(None, &set, &["OLD"]).await.unwrap();
    assert!(patched.changed);
    assert_eq!(shown(&patched.row), ["ONE=1 v1", "SAME=a v1", "THREE=3 v1", "TWO=2 v1"]);
    assert_eq!(stage.generations().await, ["api 4", "web 4"]);
    assert_eq!(
        stage.variable_events().await[events..],
        [
            "VariableSet ONE project",
            "VariableSet THREE project",
            "VariableSet TWO project",
            "VariableDeleted OLD project"
        ]
    );
    // Four facts and two new generations. Each service keeps its one wake.
    let grown: Vec<(String, i64)> =
        [("event_queue", 6), ("events", 6), ("releases", 2), ("variables", 3)]
            .map(|(table, count)| (table.to_owned(), count))
            .to_vec();
    assert_eq!(stage.grown(&before).await, grown);

    // For one service: only it changes.
    let own = stage.patch(Some("web"), &[("ONE", "own"), ("FOUR", "4")], &[]).await.unwrap();
    assert_eq!(shown(&own.row), ["FOUR=4 v1", "ONE=own v1"]);
    assert_eq!(stage.generations().await, ["api 4", "web 5"]);
}

#[tokio::test]
async fn same_values_change_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.patch(None, &[("A", "1"), ("B", "2")], &[]).await.unwrap();
    let before = stage.rows().await;
    for set in [&[("A", "1"), ("B", "2")][..], &[]] {
        let again = stage.patch(None, set, &[]).await.unwrap();
        assert!(!again.changed);
        assert_eq!(shown(&again.row), ["A=1 v1", "B=2 v1"]);
    }
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.generations().await, ["web 2"]);
}

#[tokio::test]
async fn one_refused_name_refuses_all_and_each_is_reported() {
    let stage = Stage::new().await;
    stage.try_declare("game", &minecraft(), None, 1).await.unwrap();
    stage.set_variable(None, "PLAIN", "a").await.unwrap();
    stage.set_secret(None, "HIDDEN", "a").await.unwrap();
    let before = (stage.rows().await, stage.generations().await);

    let set = [("GOOD", "1"), ("HIDDEN", "b"), ("RCON_PASSWORD", "b"), ("NUL", "a\0b")];
    let delete = ["PLAIN", "GOOD", "NEVER", "HIDDEN", "PLAIN"];
    let refused = stage.patch(None, &set, &delete).await.unwrap_err();
    assert_eq!(
        fields(refused),
        [
            "set.HIDDEN",
            "set.NUL",
            "set.RCON_PASSWORD",
            "delete[1]",
            "delete[2]",
            "delete[3]",
            "delete[4]"
        ]
    );
    let one = stage.patch(Some("game"), &[("GOOD", "1"), ("RCON_PASSWORD", "b")], &[]).await;
    assert_eq!(fields(one.unwrap_err()), ["set.RCON_PASSWORD"]);
    let nowhere = stage.patch(Some("nothing"), &[("GOOD", "1")], &[]).await;
    assert!(matches!(nowhere, Err(Refusal::NotFound("service"))), "{nowhere:?}");
    assert_eq!((stage.rows().await, stage.generations().await), before);
    // Without them the same request is accepted.
    stage.patch(None, &[("GOOD", "1")], &["PLAIN"]).await.unwrap();
}

#[tokio::test]
async fn limits_hold_for_all_names_together() {
    let stage = Stage::new().await;
    let named = |count: usize| values((0..count).map(|one| (format!("V{one}"), String::new())));
    let context = stage.context();
    let refused = stage.patch_with(None, &named(MOST_ENTRIES + 1), &[], &context).await;
    assert_eq!(fields(refused.unwrap_err()), ["set"]);
    stage.patch_with(None, &named(MOST_ENTRIES), &[], &context).await.unwrap();
    let refused = stage.patch(None, &[("ONE_MORE", "")], &[]).await;
    assert_eq!(fields(refused.unwrap_err()), ["set"]);
    // A deletion in the same request makes room.
    stage.patch(None, &[("ONE_MORE", "")], &["V0"]).await.unwrap();

    stage.declare("web", "nginx:1").await;
    let large = "x".repeat(MAX_VALUE);
    let many = MOST_TOGETHER / MAX_VALUE + 1;
    let large = values((0..many).map(|one| (format!("L{one}"), large.clone())));
    let before = stage.rows().await;
    let refused = stage.patch_with(Some("web"), &large, &[], &context).await;
    assert_eq!(fields(refused.unwrap_err()), ["set"]);
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn retry_with_the_same_key_is_applied_once() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.set_variable(None, "OLD", "a").await.unwrap();
    let context = |body: &[u8]| {
        let (route, key) = ("PATCH /variables".to_owned(), "k1".to_owned());
        let idempotency_key = Some(IdempotencyKey::new(route, key, body));
        RequestContext { idempotency_key, ..stage.context() }
    };
    let (set, keyed) = (values([("A", "1")]), context(b"{}"));
    let first = stage.patch_with(None, &set, &["OLD"], &keyed).await.unwrap();
    assert!(first.changed);
    stage.set_variable(None, "A", "newer").await.unwrap();
    // Without its key the retry would be refused: `OLD` is gone.
    let again = stage.patch_with(None, &set, &["OLD"], &keyed).await.unwrap();
    assert!(!again.changed);
    assert_eq!(shown(&again.row), ["A=newer v2"], "the current state, not the earlier one");
    assert_eq!(stage.generations().await, ["web 4"]);
    let other = stage.patch_with(None, &set, &["OLD"], &context(b"{ }")).await;
    assert!(matches!(other, Err(Refusal::KeyReused)), "{other:?}");
}

#[tokio::test]
async fn concurrent_patches_of_a_project_and_its_services_all_happen() {
    let stage = Stage::new().await;
    for service in ["a", "b"] {
        stage.declare(service, "nginx:1").await;
    }
    let mut all = Vec::new();
    for round in 0..4 {
        for service in [None, Some("a"), Some("b")] {
            let stage = &stage;
            all.push(async move {
                let set = values([
                    (format!("N{round}"), "1".to_owned()),
                    (format!("M{round}"), "2".to_owned()),
                ]);
                stage.patch_with(service, &set, &[], &stage.context()).await
            });
        }
    }
    for done in join_all(all).await {
        assert!(done.unwrap().changed);
    }
    assert_eq!(stage.one::<i64>("select count(*) from variables").await, 24);
    let newest: Vec<i64> =
        stage.all("select max(generation) from releases group by service_id order by 1").await;
    let generations: Vec<i64> = stage.all("select generation from services order by 1").await;
    assert_eq!(newest, generations, "each generation has one release, and none is lost");
}
