//! Prices are versions: publishing one never changes the past.

use jiff::Timestamp;
use sqlx::{Connection, PgConnection};
use trueup_model::OrgId;
use trueup_model::event::{PlanChanged, PublishedPrice};
use trueup_model::money::Money;
use trueup_model::org::PLATFORM;
use trueup_model::plan::{Plan, PlanPrice};
use trueup_model::service::DesiredState;
use trueup_rules::admit::Refused;
use trueup_rules::preview::cost;
use trueup_store::door::{Refusal, RequestContext, ServiceRequest};
use trueup_testkit::test_db::name;

use crate::life::operator;
use crate::stage::{PROJECT, Stage, at, web};
use crate::tenant::two_orgs;

/// The plan `small` with another price for pods.
async fn small(stage: &Stage, micros: i64) -> Plan {
    let plans = stage.db.app.list_plans(at(0)).await.unwrap();
    let plan = plans.into_iter().find(|plan| plan.name == name("small")).unwrap();
    Plan { hourly: Money { micros, ..plan.hourly }, ..plan }
}

/// Publishes a plan; returns whether that changed anything.
async fn put(
    stage: &Stage,
    plan: &Plan,
    from: Option<Timestamp>,
    seconds: i64,
) -> Result<bool, Refusal> {
    let operator = operator(stage);
    let context = RequestContext::new(&operator, None);
    let put = stage.db.app.put_plan(plan, from, &context, at(seconds)).await?;
    Ok(put.changed)
}

async fn prices(stage: &Stage) -> Vec<PlanPrice> {
    stage.db.app.list_plan_prices("small").await.unwrap().unwrap()
}

/// Amount, beginning and end of each price, newest first.
async fn history(stage: &Stage) -> Vec<(i64, Timestamp, Option<Timestamp>)> {
    let prices = prices(stage).await;
    prices.into_iter().map(|price| (price.hourly.micros, price.from, price.until)).collect()
}

/// The price of a plan that is shown at a time.
async fn shown(stage: &Stage, now: Timestamp) -> i64 {
    let plans = stage.db.app.list_plans(now).await.unwrap();
    plans.iter().find(|plan| plan.name == name("small")).unwrap().hourly.micros
}

fn refused(result: Result<bool, Refusal>) -> String {
    match result {
        Err(Refusal::Refused(Refused::Invalid(errors))) => {
            format!("{} {}", errors[0].field, errors[0].message)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_price_ends_the_one_before_at_its_microsecond() {
    let stage = Stage::new().await;
    let plan = small(&stage, 7000).await;
    let before = prices(&stage).await.remove(0).hourly.micros;
    let rows = stage.rows().await;
    assert!(put(&stage, &plan, None, 10).await.unwrap());
    let grown = stage.grown(&rows).await;
    let grew = |table: &str| grown.iter().find(|(name, _)| name == table).map(|(_, by)| *by);
    assert_eq!((grew("price_versions"), grew("events")), (Some(2), Some(1)), "{grown:?}");
    let epoch = Timestamp::UNIX_EPOCH;
    let expected = vec![(7000, at(10), None), (before, epoch, Some(at(10)))];
    assert_eq!(history(&stage).await, expected);

    let just_before = Timestamp::from_microsecond(at(10).as_microsecond() - 1).unwrap();
    assert_eq!((shown(&stage, just_before).await, shown(&stage, at(10)).await), (before, 7000));
    let newest = prices(&stage).await.remove(0);
    assert_eq!((newest.created_by.as_str(), newest.created_at), ("owner", at(10)));

    // The same again writes nothing, also together with another summary.
    let rows = stage.rows().await;
    assert!(!put(&stage, &plan, None, 11).await.unwrap());
    assert_eq!(stage.grown(&rows).await, []);
    let renamed = Plan { summary: "Another one.".to_owned(), ..plan };
    assert!(put(&stage, &renamed, None, 12).await.unwrap());
    assert_eq!(history(&stage).await, expected);
}

#[tokio::test]
async fn another_disk_price_or_currency_is_a_new_version() {
    let stage = Stage::new().await;
    let plan = small(&stage, 7000).await;
    let disk = Plan { disk_gib_hourly_micros: 999, ..plan.clone() };
    let dollars = Money { currency: "USD".parse().unwrap(), ..plan.hourly };
    let dollars = Plan { hourly: dollars, ..disk.clone() };
    for (seconds, plan) in [(10, &plan), (20, &disk), (30, &dollars)] {
        assert!(put(&stage, plan, None, seconds).await.unwrap());
    }
    let prices = prices(&stage).await;
    assert_eq!(prices.len(), 4);
    assert!(prices[0].is_of(&dollars) && prices[1].is_of(&disk) && prices[2].is_of(&plan));
    assert_eq!((prices[1].until, prices[2].until), (Some(at(30)), Some(at(20))));
}

#[tokio::test]
async fn the_event_carries_the_published_price() {
    let stage = Stage::new().await;
    let plan = small(&stage, 7000).await;
    assert!(put(&stage, &plan, None, 10).await.unwrap());
    let retired = Plan { retired: true, ..plan.clone() };
    assert!(put(&stage, &retired, None, 20).await.unwrap());
    stage.seal().await;
    let published: Vec<Option<PublishedPrice>> = stage
        .sealed(PLATFORM)
        .await
        .into_iter()
        .filter(|event| event.kind == "PlanChanged")
        .map(|event| serde_json::from_value::<PlanChanged>(event.body).unwrap().price)
        .collect();
    let price = PublishedPrice {
        version: prices(&stage).await[0].version,
        hourly_micros: 7000,
        disk_gib_hourly_micros: plan.disk_gib_hourly_micros,
        currency: plan.hourly.currency,
        from: at(10),
    };
    assert_eq!(published, [Some(price), None]);
}

#[tokio::test]
async fn a_later_price_holds_when_its_time_comes() {
    let stage = Stage::new().await;
    let (plan, before) = (small(&stage, 9000).await, shown(&stage, at(0)).await);
    assert!(put(&stage, &plan, Some(at(100)), 10).await.unwrap());
    assert_eq!((shown(&stage, at(99)).await, shown(&stage, at(100)).await), (before, 9000));
    let newest = prices(&stage).await.remove(0);
    assert_eq!((newest.created_at, newest.from), (at(10), at(100)));

    // The same manifest again, before and after that.
    for seconds in [11, 200] {
        assert!(!put(&stage, &plan, Some(at(100)), seconds).await.unwrap());
    }
    // Another price cannot come between, and the later one is not withdrawn.
    let other = small(&stage, 8000).await;
    for from in [None, Some(at(50)), Some(at(100))] {
        let said = refused(put(&stage, &other, from, 12).await);
        assert!(said.starts_with("effective_from must be after"), "{from:?}: {said}");
    }
    assert!(put(&stage, &other, Some(at(300)), 12).await.unwrap());
    let expected = vec![
        (8000, at(300), None),
        (9000, at(100), Some(at(300))),
        (before, Timestamp::UNIX_EPOCH, Some(at(100))),
    ];
    assert_eq!(history(&stage).await, expected);
}

#[tokio::test]
async fn a_price_in_the_past_or_below_zero_changes_nothing() {
    let stage = Stage::new().await;
    let rows = stage.rows().await;
    let plan = small(&stage, 7000).await;
    let new = Plan { name: name("new"), ..plan.clone() };
    let free = small(&stage, -1).await;
    for (plan, from, said) in [
        (&plan, Some(at(9)), "effective_from must not be before the present"),
        (&new, Some(at(9)), "effective_from must not be before the present"),
        (&new, Some(at(99)), "effective_from must be omitted for a new plan"),
        (&free, None, "hourly_micros must not be negative"),
    ] {
        let refused = refused(put(&stage, plan, from, 10).await);
        assert!(refused.starts_with(said), "{refused}");
    }
    assert_eq!(stage.grown(&rows).await, []);
    assert_eq!(stage.db.app.list_plan_prices("new").await.unwrap(), None);
}

#[tokio::test]
async fn operators_who_race_publish_one_price_after_the_other() {
    let stage = Stage::new().await;
    let (one, other) = (small(&stage, 7000).await, small(&stage, 8000).await);
    for seconds in [10, 20, 30] {
        // Both read the same clock.
        let (first, second, same) = tokio::join!(
            put(&stage, &one, None, seconds),
            put(&stage, &other, None, seconds),
            put(&stage, &other, None, seconds),
        );
        let changed = [first, second, same].into_iter().filter(|put| *put.as_ref().unwrap());
        assert!(changed.count() >= 1);
    }
    // Every moment has one price: each ends where the next one begins.
    let history = history(&stage).await;
    assert!(history.len() >= 4, "{history:?}");
    assert_eq!(history[0].2, None);
    for pair in history.windows(2) {
        assert_eq!(pair[1].2, Some(pair[0].1), "{history:?}");
        assert!(pair[1].1 < pair[0].1 && pair[1].0 != pair[0].0, "{history:?}");
    }
}

#[tokio::test]
async fn a_release_keeps_the_price_it_was_accepted_under() {
    let stage = Stage::new().await;
    let accept = async |image: &str, seconds: i64| {
        stage.try_declare("web", &web(image), None, seconds).await.unwrap();
    };
    accept("nginx:1", 1).await;
    assert!(put(&stage, &small(&stage, 7000).await, None, 10).await.unwrap());
    accept("nginx:2", 11).await;
    assert!(put(&stage, &small(&stage, 9000).await, Some(at(100)), 12).await.unwrap());
    accept("nginx:3", 99).await;
    accept("nginx:4", 100).await;
    let releases = stage.db.app.list_releases(stage.db.org, (PROJECT, "web"), None, 10).await;
    let releases = releases.unwrap().unwrap();
    let kept: Vec<_> = releases.iter().map(|release| release.price_version.unwrap()).collect();
    let versions: Vec<_> = prices(&stage).await.iter().map(|price| price.version).collect();
    let [later, raised, first] = versions[..] else { panic!("{versions:?}") };
    assert_eq!(kept, [later, raised, raised, first]);
}

#[tokio::test]
async fn a_preview_uses_the_price_that_holds_at_its_time() {
    let stage = Stage::new().await;
    let before = shown(&stage, at(0)).await;
    assert!(put(&stage, &small(&stage, 9000).await, Some(at(100)), 10).await.unwrap());
    let (web_name, request) = (name("web"), web("nginx:1"));
    for (seconds, micros) in [(99, before), (100, 9000)] {
        let dry_run = stage.db.app.dry_run();
        let wanted = ServiceRequest::declare(PROJECT, &web_name, &request);
        let now = at(seconds);
        let context = stage.context();
        let accepted = dry_run.app().accept_service(stage.db.org, &wanted, &context, now);
        let row = accepted.await.unwrap().row;
        let seen = dry_run.seen();
        let plan = seen.units[0].plans[1].as_ref().unwrap();
        assert_eq!(plan.hourly.micros, micros, "at {seconds}");
        assert_eq!(row.plan.as_ref(), Some(plan));
        let hourly = cost::hourly(&row.service.spec, DesiredState::Active, plan);
        assert_eq!(hourly.micros, micros * i64::from(row.service.spec.replicas));
    }
}

/// A price of the plan `small` for one org.
pub(crate) async fn override_price(stage: &Stage, org: OrgId) {
    let own = "insert into price_versions
             (id, item, org_id, currency, valid_from, scheme, created_at, created_by)
         select gen_random_uuid(), item, $1, currency, valid_from, scheme, created_at, created_by
         from price_versions where item = 'pod:small'";
    let done = sqlx::query(own).bind(org.uuid()).execute(&stage.owner).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// A connection of the app in an org.
async fn app_in(stage: &Stage, org: OrgId) -> PgConnection {
    let mut app = PgConnection::connect(&stage.db.urls.app).await.unwrap();
    sqlx::query("select set_config('trueup.org', $1, false)")
        .bind(org.uuid().to_string())
        .execute(&mut app)
        .await
        .unwrap();
    app
}

/// Runs a statement in an org; returns the number of rows, or the code of the error.
async fn run(stage: &Stage, org: OrgId, statement: &'static str) -> Result<u64, String> {
    let mut app = app_in(stage, org).await;
    let done = sqlx::raw_sql(statement).execute(&mut app).await;
    done.map(|done| done.rows_affected()).map_err(|error| {
        error.as_database_error().and_then(|error| error.code()).unwrap().into_owned()
    })
}

#[tokio::test]
async fn versions_never_change_and_never_overlap() {
    let stage = Stage::new().await;
    assert!(put(&stage, &small(&stage, 7000).await, None, 10).await.unwrap());
    for (statement, code) in [
        ("update price_versions set scheme = '{}'", "42501"),
        ("update price_versions set valid_from = now()", "42501"),
        ("delete from price_versions", "42501"),
        ("update price_versions set valid_until = null where valid_until is not null", "23001"),
        (
            "update price_versions set valid_until = 'infinity' where valid_until is not null",
            "23001",
        ),
        (
            "insert into price_versions
                 (id, item, currency, valid_from, valid_until, scheme, created_at, created_by)
             select gen_random_uuid(), item, currency, 'epoch'::timestamptz,
                    'infinity'::timestamptz, scheme, now(), 'x'
             from price_versions limit 1",
            "23P01",
        ),
    ] {
        assert_eq!(run(&stage, PLATFORM, statement).await, Err(code.to_owned()), "{statement}");
    }
    // Not even the owner changes one.
    for statement in ["update price_versions set scheme = '{}'", "delete from price_versions"] {
        let done = sqlx::raw_sql(statement).execute(&stage.owner).await;
        let code = done.unwrap_err().as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "23001", "{statement}");
    }
}

#[tokio::test]
async fn an_org_reads_the_list_and_its_own_prices_and_writes_none() {
    let (stage, ours, theirs) = two_orgs().await;
    override_price(&stage, theirs).await;
    let list: i64 = stage.one("select count(*) from price_versions where org_id is null").await;
    for (org, more) in [(ours, 0), (theirs, 1)] {
        let mut app = app_in(&stage, org).await;
        let seen: i64 = sqlx::query_scalar("select count(*) from price_versions")
            .fetch_one(&mut app)
            .await
            .unwrap();
        assert_eq!(seen, list + more);
        let insert = "insert into price_versions
                 (id, item, currency, valid_from, scheme, created_at, created_by)
             values (gen_random_uuid(), 'egress_bytes', 'EUR', now(), '{}', now(), 'x')";
        assert_eq!(run(&stage, org, insert).await, Err("42501".to_owned()));
        let end = "update price_versions set valid_until = now()";
        assert_eq!(run(&stage, org, end).await, Ok(0));
    }
}
