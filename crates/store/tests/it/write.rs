//! The frame of every write: a lost race is retried, and events have the source of the request.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use trueup_model::billing::BillingSettings;
use trueup_model::budget::AtLimit;
use trueup_model::cluster::Routing;
use trueup_model::domain::{DnsResult, Host};
use trueup_model::drift::DriftPolicy;
use trueup_model::event::Source;
use trueup_model::money::{Currency, Money};
use trueup_model::offer::Offer;
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;
use trueup_model::principal::Role;
use trueup_model::quota::Amounts;
use trueup_model::template::{Template, TemplateRef};
use trueup_model::token::TokenSpec;
use trueup_model::variable::VariableName;
use trueup_store::FreezeRequest;
use trueup_store::door::{
    BudgetRequest, DomainRequest, EndpointRequest, EndpointTarget, EntryRequest, Refusal,
    RequestContext, ServiceRequest, SubscriptionRequest, VariablePatch,
};
use trueup_testkit::test_db::name;

use crate::finding::candidate;
use crate::stage::{PROJECT, Stage, at, unit, web};

const HOST: &str = "www.example.org";

/// What a write leaves behind.
#[derive(Debug, Clone, Copy)]
enum Recorded {
    /// An event of this type.
    Event(&'static str),
    /// A row of this table; the write has no event.
    Row(&'static str),
}

impl Recorded {
    /// The table that the write inserts into.
    const fn table(self) -> &'static str {
        match self {
            Self::Event(_) => "events",
            Self::Row(table) => table,
        }
    }

    /// A statement that counts what such writes left.
    fn count(self) -> String {
        match self {
            Self::Event(kind) => format!("select count(*) from events where type = '{kind}'"),
            Self::Row(table) => format!("select count(*) from {table}"),
        }
    }
}

/// Writes in an order in which each of them changes something.
const WRITES: [(&str, Recorded); 25] = [
    // First, because other writes wake the service as well.
    ("requeue_wake", Recorded::Event("WakeRequeued")),
    ("accept_project", Recorded::Event("ProjectQueued")),
    ("open_endpoint", Recorded::Event("EndpointOpened")),
    ("close_endpoint", Recorded::Event("EndpointClosed")),
    ("request_domain_check", Recorded::Event("DomainCheckRequested")),
    ("set_variable", Recorded::Event("VariableSet")),
    ("patch_variables", Recorded::Event("VariableDeleted")),
    ("create_token", Recorded::Event("TokenCreated")),
    ("revoke_token", Recorded::Event("TokenRevoked")),
    ("create_org", Recorded::Event("OrgCreated")),
    ("put_plan", Recorded::Event("PlanChanged")),
    ("put_quota", Recorded::Event("QuotaChanged")),
    ("put_billing_account", Recorded::Event("BillingAccountChanged")),
    ("put_offer", Recorded::Event("OfferPublished")),
    ("put_subscription", Recorded::Event("SubscriptionChanged")),
    ("put_budget", Recorded::Event("BudgetChanged")),
    ("put_routing", Recorded::Event("RoutingChanged")),
    ("request_preview", Recorded::Row("preview_requests")),
    ("freeze_service", Recorded::Event("ServiceFrozen")),
    ("freeze_platform", Recorded::Event("PlatformFrozen")),
    ("reconcile_service", Recorded::Event("ReconcileRequested")),
    ("publish_template", Recorded::Event("TemplatePublished")),
    ("deprecate_template", Recorded::Event("TemplateDeprecated")),
    ("remove_finding", Recorded::Event("FindingRemovalRequested")),
    // Last, because nothing is accepted in the org afterwards.
    ("delete_org", Recorded::Event("OrgDeleteQueued")),
];

fn parsed<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A stage with a finding, and a service with a dead wake whose domain was checked once and not
/// verified.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    assert_eq!(stage.sweep(vec![candidate("left", true)], 10).await, 1);
    stage.add(stage.db.org, "web", HOST).await.unwrap();
    let worker = &stage.db.worker;
    let due = worker.claim_dns_checks(8, 8, &[], at(60)).await.unwrap();
    worker
        .record_dns_check(&due[0], DnsResult::Nothing, "no TXT record yet", at(61))
        .await
        .unwrap();
    worker.mark_wake_dead(unit(&row), "it cannot be read", at(62)).await.unwrap();
    stage
}

/// Performs one of [`WRITES`].
async fn write(stage: &Stage, what: &str, context: &RequestContext<'_>) -> Result<(), Refusal> {
    let (app, org, now) = (&stage.db.app, stage.db.org, at(80));
    let endpoint = name("one");
    let endpoint =
        EndpointRequest { project: PROJECT, service: "web", name: &endpoint, if_generation: None };
    let freeze = FreezeRequest { reason: Some("an audit") };
    match what {
        "accept_project" => {
            app.accept_project(org, &name("other"), &DriftPolicy::default(), context, now).await?;
        }
        "open_endpoint" => {
            let target = EndpointTarget { port: "http", protocol: None };
            app.open_endpoint(org, &endpoint, &target, context, now).await?;
        }
        "close_endpoint" => app.close_endpoint(org, &endpoint, context, now).await?,
        "request_domain_check" => {
            let host: Host = parsed(HOST);
            let wanted = DomainRequest {
                project: PROJECT,
                service: "web",
                host: &host,
                if_generation: None,
            };
            app.request_domain_check(org, &wanted, context, now).await?;
        }
        "set_variable" => {
            let variable: VariableName = parsed("GREETING");
            let wanted =
                EntryRequest { project: PROJECT, service: None, name: &variable, if_version: None };
            app.set_variable(org, &wanted, "hello", context, now).await?;
        }
        "patch_variables" => {
            let delete: [VariableName; 1] = [parsed("GREETING")];
            let set = BTreeMap::new();
            let wanted =
                VariablePatch { project: PROJECT, service: None, set: &set, delete: &delete };
            app.patch_variables(org, &wanted, context, now).await?;
        }
        "create_token" => {
            let wanted = TokenSpec {
                name: "ci".to_owned(),
                role: Role::Developer,
                project: None,
                permissions: None,
                expires_at: None,
            };
            app.create_token(org, &wanted, context, now).await?;
        }
        "revoke_token" => {
            app.revoke_token(org, "ci", context, now).await?;
        }
        "freeze_service" => {
            app.freeze_service(org, (PROJECT, "web"), freeze, context, now).await?;
        }
        "freeze_platform" => {
            app.freeze_platform(None, freeze, context, now).await?;
        }
        "reconcile_service" => {
            app.reconcile_service(org, (PROJECT, "web"), context, now).await?;
        }
        "request_preview" => {
            let (service, request) = (name("web"), web("nginx:2"));
            let wanted = ServiceRequest::declare(PROJECT, &service, &request);
            app.request_preview(org, &wanted, context, now).await?;
        }
        other => return write_setting(stage, other, context).await,
    }
    Ok(())
}

/// Performs one of [`WRITES`] that is for operators.
async fn write_setting(
    stage: &Stage,
    what: &str,
    context: &RequestContext<'_>,
) -> Result<(), Refusal> {
    let (app, org, now) = (&stage.db.app, stage.db.org, at(80));
    match what {
        "create_org" => {
            app.create_org(&name("fresh"), context, now).await?;
        }
        "delete_org" => {
            app.delete_org(org, context, now).await?;
        }
        "requeue_wake" => {
            let of = stage.find("web").await.unwrap();
            assert!(app.requeue_wake(PLATFORM, unit(&of), context, now).await?.1);
        }
        "remove_finding" => {
            let found = app.list_findings(false, None, 1).await?.remove(0);
            assert!(app.remove_finding(found.id, None, context, now).await?.1);
        }
        "publish_template" => {
            let first = app.find_template(&parsed("web@1")).await?.unwrap();
            let next = Template { version: 2, summary: "Better.".to_owned(), ..first };
            app.publish_template(&next, context, now).await?;
        }
        "put_plan" => {
            let plan = app.list_plans(now).await?.remove(0);
            let plan = Plan { name: name("old"), retired: true, ..plan };
            assert!(app.put_plan(&plan, None, context, now).await?.changed);
        }
        "put_quota" => {
            let limit = app.find_quota(org).await?.limit;
            let limit = Amounts { services: limit.services + 1, ..limit };
            assert!(app.put_quota(org, limit, context, now).await?.1);
        }
        "put_billing_account" => {
            let settings = BillingSettings::default();
            let mut account = app.find_billing_account(org, &settings).await?;
            account.tax_ppm += 1;
            assert!(app.put_billing_account(org, &account, &settings, context, now).await?.1);
        }
        "put_routing" => {
            let cluster = app.list_clusters().await?.remove(0);
            let routing = Routing { issuer: Some("ca".to_owned()), ..Routing::default() };
            assert!(app.put_routing(&cluster, &routing, context, now).await?);
        }
        "deprecate_template" => {
            let wanted: TemplateRef = parsed("web@1");
            app.deprecate_template(&wanted, "use web@2", context, now).await?;
        }
        other => return write_money(stage, other, context).await,
    }
    Ok(())
}

/// Performs one of [`WRITES`] that is about money.
async fn write_money(
    stage: &Stage,
    what: &str,
    context: &RequestContext<'_>,
) -> Result<(), Refusal> {
    let (app, org, now) = (&stage.db.app, stage.db.org, at(80));
    match what {
        "put_offer" => {
            let last = app.list_offers().await?.remove(0);
            let terms = Offer { fee_micros: last.fee_micros + 1, ..last };
            assert!(app.put_offer(&terms, context, now).await?.changed);
        }
        "put_subscription" => {
            let settings = BillingSettings::default();
            let current = app.cost_inputs(org, now, &settings).await?.subscriptions;
            let is_team = current.last().is_some_and(|held| held.offer.name == name("team"));
            let offer = if is_team { "enterprise" } else { "team" };
            let wanted = SubscriptionRequest { offer, version: None, next_period: false };
            assert!(app.put_subscription(org, wanted, &settings, context, now).await?.changed);
        }
        "put_budget" => {
            let (settings, currency) = (BillingSettings::default(), Currency::EUR);
            let before =
                app.find_budget(org, &settings, now).await?.map_or(0, |it| it.limit_micros);
            let limit = Money { micros: before + 1, currency };
            let wanted = Some(BudgetRequest { limit, at_limit: AtLimit::Warn });
            assert!(app.put_budget((org, None), wanted, &settings, context, now).await?.1);
        }
        other => panic!("{other} is not a write"),
    }
    Ok(())
}

/// Nothing of the first attempt is committed: each event is there once.
#[tokio::test]
async fn every_write_is_retried_after_a_lost_race_and_applied_once() {
    let stage = stage().await;
    let run = async |statement: &str| {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        sqlx::raw_sql(statement).execute(&stage.owner).await.unwrap();
    };
    run("create sequence attempts;
         create function lose_the_first() returns trigger language plpgsql security definer as $$
         begin
             if nextval('attempts') = 1 then
                 raise exception 'lost' using errcode = 'serialization_failure';
             end if;
             return null;
         end $$;")
    .await;
    for (what, recorded) in WRITES {
        let (table, count) = (recorded.table(), recorded.count());
        let before: i64 = stage.one(&count).await;
        run(&format!(
            "alter sequence attempts restart;
             create trigger lose_the_first before insert on {table}
                 for each statement execute function lose_the_first();"
        ))
        .await;
        let written = write(&stage, what, &stage.context()).await;
        assert!(written.is_ok(), "{what}: {written:?}");
        run(&format!("drop trigger lose_the_first on {table}")).await;
        let inserts: i64 = stage.one("select last_value from attempts").await;
        assert!(inserts > 1, "{what} inserted nothing into {table}");
        assert_eq!(stage.one::<i64>(&count).await, before + 1, "{what}");
    }
}

#[tokio::test]
async fn every_event_of_a_write_has_the_source_of_its_request() {
    let stage = stage().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let user = RequestContext::new(&stage.principal, Some(trace.to_owned()));
    let system = RequestContext { source: Source::System, ..user };
    for (what, recorded) in WRITES {
        let written = write(&stage, what, &system).await;
        assert!(written.is_ok(), "{what}: {written:?}");
        let Recorded::Event(event) = recorded else { continue };
        let sources: Vec<String> = stage
            .all(&format!(
                "select distinct source from events where type = '{event}' and trace = '{trace}'"
            ))
            .await;
        assert_eq!(sources, ["system"], "{what}");
    }
    let users: i64 = stage
        .one(&format!("select count(*) from events where source = 'user' and trace = '{trace}'"))
        .await;
    assert_eq!(users, 0);
}
