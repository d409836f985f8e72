//! The overview: counts agree with what each service is shown as, and what needs a person is listed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_model::cluster::Freshness;
use trueup_model::id::ClusterId;
use trueup_model::key::Kind;
use trueup_model::status::{Condition, Evidence, Health, Phase, Reason, Reconciliation, Status};
use trueup_rules::status::{aged, freshness, reconciliation};
use trueup_store::{NeedCause, ServiceFilter, ServiceOrder, ServiceRow};
use uuid::Uuid;

use crate::stage::{Stage, at};

const PHASES: [Phase; 9] = [
    Phase::Accepted,
    Phase::Creating,
    Phase::Running,
    Phase::Updating,
    Phase::Completed,
    Phase::Paused,
    Phase::Deleting,
    Phase::Blocked,
    Phase::Deleted,
];
const REASONS: [&[Reason]; 6] = [
    &[],
    &[Reason::PodsNotReady],
    &[Reason::InConflict, Reason::SecretsLocked],
    &[Reason::ClusterUnreachable],
    &[Reason::Defect],
    &[Reason::Stale],
];

/// Every combination of what the shown state of a service depends on.
fn statuses(cluster: ClusterId) -> Vec<Status> {
    let mut all = Vec::new();
    for phase in PHASES {
        for reasons in REASONS {
            for applied_generation in [None, Some(1)] {
                for has_evidence in [true, false] {
                    let condition = |reason: &Reason| Condition {
                        reason: *reason,
                        message: "why".to_owned(),
                        cause: None,
                    };
                    let evidence = Evidence {
                        cluster,
                        uid: None,
                        resource_version: None,
                        observed_at: at(2),
                        simulated: false,
                        pods: None,
                    };
                    let health = [Health::Healthy, Health::Error, Health::Degraded];
                    all.push(Status {
                        phase,
                        since: at(1),
                        health: health[all.len() % 3],
                        conditions: reasons.iter().map(condition).collect(),
                        applied_generation,
                        evidence: has_evidence.then_some(evidence),
                    });
                }
            }
        }
    }
    all
}

impl Stage {
    /// Copies the service `web` once for each status; the copies take turns in what they depend on.
    async fn copies(&self, statuses: &[Status]) {
        let spec: Value = self.one("select spec from services where name = 'web'").await;
        let (mut ids, mut names, mut specs) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..statuses.len() {
            let mut spec = spec.clone();
            let workloads = ["deployment", "stateful_set", "cron_job", "job"];
            spec["workload"] = json!(workloads[number % workloads.len()]);
            if number % 3 == 0 {
                spec["ports"] = json!([]);
            }
            if number % 5 == 0 {
                spec["volume"] = json!({"size_gib": 1, "path": "/data"});
            }
            ids.push(Uuid::from_u128(7_000_000 + u128::try_from(number).unwrap()));
            names.push(format!("copy-{number:04}"));
            specs.push(spec);
        }
        let services = "insert into services select c.* from services s,
            unnest($1::uuid[], $2::text[], $3::jsonb[]) as n (id, name, spec),
            jsonb_populate_record(s, jsonb_build_object('id', n.id, 'name', n.name, 'object_name', n.name,
                                                        'spec', n.spec)) c
            where s.name = 'web'";
        let copies = sqlx::query(services).bind(&ids).bind(&names).bind(&specs);
        copies.execute(&self.owner).await.unwrap();
        let rows = "insert into statuses select c.* from services s
            join statuses t on t.subject_id = s.id and s.name = 'web',
            unnest($1::uuid[], $2::jsonb[]) as n (id, status),
            jsonb_populate_record(t, jsonb_build_object('subject_id', n.id, 'status', n.status,
                'phase', n.status ->> 'phase', 'health', n.status ->> 'health')) c";
        let status = |status: &Status| serde_json::to_value(status).unwrap();
        let rows = sqlx::query(rows).bind(&ids);
        let rows = rows.bind(statuses.iter().map(status).collect::<Vec<_>>());
        rows.execute(&self.owner).await.unwrap();
    }

    async fn listed(&self, filter: &ServiceFilter, now: Timestamp) -> Vec<ServiceRow> {
        let (app, page) = (&self.db.app, (ServiceOrder::default(), None));
        app.list_services(self.db.org, filter, page, 10_000, now).await.unwrap()
    }
}

/// How the rules show a service.
fn shown(row: &ServiceRow, now: Timestamp) -> (Reconciliation, Health, Phase) {
    let (spec, generation) = (&row.service.spec, row.service.generation);
    let unheard = row.watches.silent(&freshness::objects(spec), now);
    let silent = row.watches.silent(&freshness::evidence(spec), now);
    let settled = reconciliation(&row.status, generation, !unheard.is_empty());
    (settled, aged(row.status.clone(), &silent).0.health, row.status.phase)
}

/// The database and the rules must agree, whichever watch is silent.
#[tokio::test]
async fn counts_and_filters_agree_with_the_rules() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.copies(&statuses(stage.db.cluster)).await;
    let lease = stage.lease().await;
    let kinds = [None, Some(Kind::Pod), Some(Kind::Deployment), Some(Kind::StatefulSet)]
        .into_iter()
        .chain([Kind::CronJob, Kind::Job, Kind::ConfigMap, Kind::Service].map(Some))
        .chain([Some(Kind::PersistentVolumeClaim), Some(Kind::Namespace)]);
    for (round, silent) in kinds.enumerate() {
        let now = at(1000 + 100 * i64::try_from(round).unwrap());
        let mut heard = Freshness::all_at(now);
        if let Some(kind) = silent {
            heard.heard.insert(kind, at(0));
        }
        stage.db.worker.record_watches(lease, &heard).await.unwrap();
        let rows = stage.listed(&ServiceFilter::default(), now).await;
        assert!(rows.len() > 200, "{}", rows.len());
        let mut expected = BTreeMap::new();
        for row in &rows {
            *expected.entry(format!("{:?}", shown(row, now))).or_insert(0) += 1;
        }
        let overview = stage.db.app.overview(stage.db.org, now).await.unwrap();
        let counted: BTreeMap<String, i64> = overview
            .services
            .iter()
            .map(|it| (format!("{:?}", (it.reconciliation, it.health, it.phase)), it.count))
            .collect();
        assert_eq!(counted, expected, "silent: {silent:?}");
        for wanted in [Reconciliation::Settled, Reconciliation::Pending, Reconciliation::Diverged] {
            let filter = ServiceFilter { reconciliation: Some(wanted), ..ServiceFilter::default() };
            let count = rows.iter().filter(|row| shown(row, now).0 == wanted).count();
            assert_eq!(stage.listed(&filter, now).await.len(), count, "{wanted} {silent:?}");
        }
        for wanted in [Health::Healthy, Health::Error, Health::Unknown] {
            let filter = ServiceFilter { health: Some(wanted), ..ServiceFilter::default() };
            let count = rows.iter().filter(|row| shown(row, now).1 == wanted).count();
            let app = &stage.db.app;
            let counted = app.count_services(stage.db.org, &filter, now).await.unwrap();
            assert_eq!(usize::try_from(counted), Ok(count), "{wanted} {silent:?}");
        }
    }
}

#[tokio::test]
async fn worst_and_oldest_needs_come_first() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let base = statuses(stage.db.cluster)[0].clone();
    let one = |phase, health, seconds| Status { phase, health, since: at(seconds), ..base.clone() };
    stage
        .copies(&[
            one(Phase::Running, Health::Error, 3),
            one(Phase::Running, Health::Healthy, 1),
            one(Phase::Blocked, Health::Unknown, 5),
            one(Phase::Blocked, Health::Error, 4),
            one(Phase::Running, Health::Error, 2),
        ])
        .await;
    stage.db.record_heartbeat(at(9)).await;
    let needs = stage.db.app.overview(stage.db.org, at(9)).await.unwrap().needs;
    let listed: Vec<_> = needs
        .iter()
        .map(|need| (need.service_name.as_deref().unwrap(), need.cause.clone()))
        .collect();
    assert_eq!(
        listed,
        [
            ("copy-0003", NeedCause::Blocked),
            ("copy-0002", NeedCause::Blocked),
            ("copy-0004", NeedCause::Failing),
            ("copy-0000", NeedCause::Failing),
        ]
    );
    assert!(needs.iter().all(|need| need.hourly.is_some()), "the plan has a price");
    // Nothing is failing that is not known to fail now.
    let later = stage.db.app.overview(stage.db.org, at(900)).await.unwrap().needs;
    assert!(later.iter().all(|need| need.cause == NeedCause::Blocked), "{later:?}");
}
