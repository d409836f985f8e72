//! DNS checks: each is claimed once, within the limits per org, and affects its own org only.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use trueup_model::domain::DnsResult;
use trueup_model::id::OrgId;
use trueup_store::DueDnsCheck;

use crate::stage::{Stage, at};
use crate::statement::literals;

impl Stage {
    async fn due(
        &self,
        most: i64,
        of_one: i64,
        without: &[OrgId],
        seconds: i64,
    ) -> Vec<DueDnsCheck> {
        self.db.worker.claim_dns_checks(most, of_one, without, at(seconds)).await.unwrap()
    }
}

#[tokio::test]
async fn a_due_check_is_claimed_once_and_schedules_the_next() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    assert_eq!(stage.db.worker.next_dns_check().await.unwrap(), None);
    let added = stage.add(stage.db.org, "web", "www.example.org").await.unwrap().row;
    assert_eq!(stage.db.worker.next_dns_check().await.unwrap(), Some(at(13)));
    assert_eq!(stage.due(8, 4, &[], 12).await, []);
    assert_eq!(stage.due(8, 4, &[stage.db.org], 13).await, []);
    let (one, other) = tokio::join!(stage.due(8, 4, &[], 13), stage.due(8, 4, &[], 13));
    let taken: Vec<DueDnsCheck> = one.into_iter().chain(other).collect();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!((taken[0].org, taken[0].domain), (stage.db.org, added.id));
    assert_eq!(stage.db.worker.next_dns_check().await.unwrap(), Some(at(23)));
    // The result is shown.
    stage
        .db
        .worker
        .record_dns_check(&taken[0], DnsResult::Nothing, "no TXT record yet", at(14))
        .await
        .unwrap();
    let shown = stage.db.app.list_domains(stage.db.org, "shop").await.unwrap().unwrap();
    let last = shown[0].search.last.clone().unwrap();
    assert_eq!(
        (last.at, last.result, last.why.as_str()),
        (at(14), DnsResult::Nothing, "no TXT record yet")
    );
    assert_eq!(shown[0].search.next_at, Some(at(23)));
}

#[tokio::test]
async fn claims_are_limited_per_org() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let ours = stage.db.org;
    for number in 0..10 {
        stage.add(ours, "web", &format!("h{number}.example.org")).await.unwrap();
    }
    let theirs = stage.others().await;
    stage.add(theirs, "web", "theirs.example.org").await.unwrap();
    let taken = stage.due(8, 4, &[], 20).await;
    let own = taken.iter().filter(|check| check.org == ours).count();
    assert_eq!((own, taken.len()), (4, 5));
    assert_eq!(stage.due(3, 4, &[ours], 20).await, []);
    assert_eq!(stage.due(3, 4, &[], 20).await.len(), 3);
}

/// Postgres runs both queries of the loop, taken from the source, on the index.
#[tokio::test]
async fn due_checks_are_found_by_the_index() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let many = format!(
        "insert into domains (id, org_id, service_id, host, tls, made_by, created_at, next_check_at,
                              verified_at, verified_by)
         select gen_random_uuid(), s.org_id, s.id, n || '.example.org', 'off', 'x', now(),
                case when n % 2 = 0 then timestamptz '2028-01-01' + n * interval '1 hour' end,
                case when n % 2 = 1 then now() end, case when n % 2 = 1 then 'x' end
         from services s, generate_series(1, 10000) n where s.id = '{}'",
        row.service.id.uuid()
    );
    for statement in [many.as_str(), "analyze domains"] {
        let statement = AssertSqlSafe(statement.to_owned());
        sqlx::raw_sql(statement).execute(&stage.owner).await.unwrap();
    }
    let questions: Vec<String> = literals(include_str!("../../src/work/dns_check.rs"))
        .into_iter()
        .filter(|text| text.starts_with("select") && text.contains("next_check_at"))
        .collect();
    assert_eq!(questions.len(), 2, "{questions:#?}");
    let mut worker = PgConnection::connect(&stage.db.urls.worker).await.unwrap();
    for question in questions {
        let explained = AssertSqlSafe(format!("explain {question}"));
        let explain = sqlx::query_scalar::<_, String>(explained);
        let explain = if question.contains("$4") {
            let none: Vec<uuid::Uuid> = Vec::new();
            explain.bind(jiff_sqlx::ToSqlx::to_sqlx(at(0))).bind(8_i64).bind(4_i64).bind(none)
        } else {
            explain
        };
        let plan = explain.fetch_all(&mut worker).await.unwrap().join("\n");
        assert!(plan.contains("domains_due"), "{question}\n{plan}");
        assert!(!plan.contains("Seq Scan on domains"), "{question}\n{plan}");
    }
}
