//! The frame of every write: a lost race is retried, and events have the source of the request.

use std::fmt::Debug;
use std::str::FromStr;

use trueup_model::cluster::Routing;
use trueup_model::domain::{DnsResult, Host};
use trueup_model::event::Source;
use trueup_model::plan::Plan;
use trueup_model::principal::Role;
use trueup_model::quota::Amounts;
use trueup_model::template::TemplateRef;
use trueup_model::token::TokenSpec;
use trueup_model::variable::VariableName;
use trueup_store::FreezeRequest;
use trueup_store::door::{
    DomainRequest, EndpointRequest, EndpointTarget, EntryRequest, Refusal, RequestContext,
};
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at};

const HOST: &str = "www.example.org";

/// Writes in an order in which each of them changes something, each with its own event.
const WRITES: [(&str, &str); 15] = [
    ("accept_project", "ProjectQueued"),
    ("open_endpoint", "EndpointOpened"),
    ("close_endpoint", "EndpointClosed"),
    ("request_domain_check", "DomainCheckRequested"),
    ("set_variable", "VariableSet"),
    ("create_token", "TokenCreated"),
    ("revoke_token", "TokenRevoked"),
    ("create_org", "OrgCreated"),
    ("put_plan", "PlanChanged"),
    ("put_quota", "QuotaChanged"),
    ("put_routing", "RoutingChanged"),
    ("freeze_service", "ServiceFrozen"),
    ("freeze_platform", "PlatformFrozen"),
    ("reconcile_service", "ReconcileRequested"),
    ("deprecate_template", "TemplateDeprecated"),
];

fn parsed<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A stage with a service whose domain was checked once and not verified.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.add(stage.db.org, "web", HOST).await.unwrap();
    let worker = &stage.db.worker;
    let due = worker.claim_dns_checks(8, 8, &[], at(60)).await.unwrap();
    worker
        .record_dns_check(&due[0], DnsResult::Nothing, "no TXT record yet", at(61))
        .await
        .unwrap();
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
            app.accept_project(org, &name("other"), context, now).await?;
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
        "create_token" => {
            let wanted = TokenSpec {
                name: "ci".to_owned(),
                role: Role::Developer,
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
        "put_plan" => {
            let plan = app.list_plans().await?.remove(0);
            let plan = Plan { name: name("old"), retired: true, ..plan };
            assert!(app.put_plan(&plan, context, now).await?);
        }
        "put_quota" => {
            let limit = app.find_quota(org).await?.limit;
            let limit = Amounts { services: limit.services + 1, ..limit };
            assert!(app.put_quota(org, limit, context, now).await?.1);
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
        other => panic!("{other} is not a write"),
    }
    Ok(())
}

/// Nothing of the first attempt is committed: each event is there once.
#[tokio::test]
async fn every_write_is_retried_after_a_lost_race_and_applied_once() {
    let stage = stage().await;
    sqlx::raw_sql(
        "create sequence attempts;
         create function lose_the_first() returns trigger language plpgsql security definer as $$
         begin
             if nextval('attempts') = 1 then
                 raise exception 'lost' using errcode = 'serialization_failure';
             end if;
             return null;
         end $$;
         create trigger lose_the_first before insert on events
             for each statement execute function lose_the_first();",
    )
    .execute(&stage.owner)
    .await
    .unwrap();
    for (what, event) in WRITES {
        let count = format!("select count(*) from events where type = '{event}'");
        let before: i64 = stage.one(&count).await;
        sqlx::raw_sql("alter sequence attempts restart").execute(&stage.owner).await.unwrap();
        let written = write(&stage, what, &stage.context()).await;
        assert!(written.is_ok(), "{what}: {written:?}");
        let inserts: i64 = stage.one("select last_value from attempts").await;
        assert!(inserts > 1, "{what} recorded no event");
        assert_eq!(stage.one::<i64>(&count).await, before + 1, "{what}");
    }
}

#[tokio::test]
async fn every_event_of_a_write_has_the_source_of_its_request() {
    let stage = stage().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let user = RequestContext::new(&stage.principal, Some(trace.to_owned()));
    let system = RequestContext { source: Source::System, ..user };
    for (what, event) in WRITES {
        let written = write(&stage, what, &system).await;
        assert!(written.is_ok(), "{what}: {written:?}");
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
