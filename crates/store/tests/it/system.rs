//! The worker sees the rows of every org. What it does for one org leaves the rows of others
//! untouched, even if its input names the wrong org.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trueup_testkit::report_batch::{RecordReports as _, next_batch};

use trueup_model::OrgId;
use trueup_model::billing::BillingSettings;
use trueup_model::cluster::Freshness;
use trueup_model::domain::DnsResult;
use trueup_model::drift::{DivergenceState, Verdict};
use trueup_model::finding::SweepResult;
use trueup_model::key::Kind;
use trueup_model::order::Unit;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::wake::Claimed;
use trueup_store::door::SubscriptionRequest;
use trueup_store::{
    DueDnsCheck, Notification, Observer, PendingPreview, PreviewResult, ReachabilityChange,
    ServiceRow, WaitingProposal,
};

use crate::drift::{reverted, standing};
use crate::finding::candidate;
use crate::preview_request::exact_preview;
use crate::project::proof;
use crate::stage::{PROJECT, Stage, at, converged, gone, seen};
use crate::tenant::two_orgs;
use crate::transition::{pod, present};

/// The rows of an org that must not change.
struct Rows<'a> {
    stage: &'a Stage,
    org: OrgId,
    before: BTreeMap<String, String>,
}

impl<'a> Rows<'a> {
    async fn of(stage: &'a Stage, org: OrgId) -> Self {
        let before = all_rows(stage, org).await;
        Self { stage, org, before }
    }

    async fn assert_untouched_by(&self, what: &str) {
        for (table, now) in all_rows(self.stage, self.org).await {
            assert_eq!(self.before[&table], now, "{what} should leave {table} of others alone");
        }
    }
}

/// The tables with an org.
pub(crate) async fn tenant_tables(stage: &Stage) -> Vec<String> {
    stage
        .all(
            "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
             where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
               and not c.relispartition and a.attname = 'org_id' order by 1",
        )
        .await
}

/// Every row of an org by table, and its ports.
async fn all_rows(stage: &Stage, org: OrgId) -> BTreeMap<String, String> {
    let org = org.uuid();
    let as_text = "coalesce(string_agg(t::text, chr(10) order by t::text), '')";
    let mut queries: Vec<String> = tenant_tables(stage)
        .await
        .iter()
        .map(|table| format!("select '{table}', {as_text} from {table} t where org_id = '{org}'"))
        .collect();
    queries.push(format!(
        "select 'endpoint_ports', {as_text} from endpoint_ports t
         where endpoint_id in (select id from endpoints where org_id = '{org}')"
    ));
    let queries = sqlx::AssertSqlSafe(queries.join(" union all "));
    let rows: Vec<(String, String)> =
        sqlx::query_as(queries).fetch_all(&stage.owner).await.unwrap();
    rows.into_iter().collect()
}

/// Two orgs with the same names. All claimed wakes of theirs are in flight.
struct Two {
    stage: Stage,
    theirs: OrgId,
    observer: Observer,
    their_web: ServiceRow,
    our_claims: Vec<Claimed>,
    their_claims: Vec<Claimed>,
}

async fn two() -> Two {
    let (stage, _, theirs) = two_orgs().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    let claimed = worker.claim_orders(lease, 100, at(8)).await.unwrap();
    let (their_claims, our_claims): (Vec<_>, Vec<_>) =
        claimed.into_iter().map(|(claimed, _)| claimed).partition(|claimed| claimed.org == theirs);
    let rows = stage.services(theirs).await;
    let their_web = rows.into_iter().find(|row| row.service.name.as_str() == "web").unwrap();
    let starting = Some(seen(&their_web, 1, 0));
    let report = Report { observation: starting, ..converged(&their_web, 1) };
    assert_eq!(worker.record_reports(lease, &[report], at(8)).await.unwrap(), 1);
    stage.seal().await;
    let observer = Observer { lease, name: "one".to_owned(), before: Freshness::default() };
    Two { stage, theirs, observer, their_web, our_claims, their_claims }
}

impl Two {
    /// Changes our service, and claims its wake.
    async fn claim_ours(&self, image: &str, seconds: i64) -> Claimed {
        self.stage.declare("web", image).await;
        let worker = &self.stage.db.worker;
        let claimed = worker.claim_orders(self.observer.lease, 100, at(seconds)).await.unwrap();
        assert_eq!(claimed.len(), 1, "only ours is due");
        claimed.into_iter().next().map(|(claimed, _)| claimed).unwrap()
    }
}

/// S17.
#[tokio::test]
async fn s17_processing_wakes_of_one_org_does_not_touch_another() {
    let two = two().await;
    let (worker, lease) = (&two.stage.db.worker, two.observer.lease);
    let theirs = Rows::of(&two.stage, two.theirs).await;
    assert!(!two.their_claims.is_empty() && !two.our_claims.is_empty());
    worker.finish_wakes(&two.our_claims, at(9)).await.unwrap();
    theirs.assert_untouched_by("finish_wakes").await;
    let wake = two.claim_ours("nginx:2", 10).await;
    theirs.assert_untouched_by("claim_orders").await;
    worker.finish_check(&wake, &Outcome::Converged, at(11)).await.unwrap();
    theirs.assert_untouched_by("finish_check").await;
    let wake = two.claim_ours("nginx:3", 12).await;
    worker.retry_wake(&wake, Duration::ZERO, "later", at(13)).await.unwrap();
    theirs.assert_untouched_by("retry_wake").await;
    let wake = two.claim_ours("nginx:4", 14).await;
    worker.poison_wake(&wake, "a defect", at(15)).await.unwrap();
    theirs.assert_untouched_by("poison_wake").await;
    assert!(worker.unsealed_events().await.unwrap().count > 0);
    two.stage.seal().await;
    worker.seal_events(at(15)).await.unwrap();
    theirs.assert_untouched_by("seal_events and unsealed_events").await;
    let in_flight: BTreeSet<Unit> = two.their_claims.iter().map(|claimed| claimed.unit).collect();
    worker.requeue_lost(lease, &in_flight).await.unwrap();
    worker.wake_all(lease.scope, at(16)).await.unwrap();
    theirs.assert_untouched_by("requeue_lost and wake_all").await;
    worker.wake_units(lease, &[wake.unit], at(16)).await.unwrap();
    theirs.assert_untouched_by("wake_units").await;
    worker.mark_wake_dead(wake.unit, "why", at(17)).await.unwrap();
    theirs.assert_untouched_by("mark_wake_dead").await;

    // A claim that names another org than the unit's changes nothing and emits no event.
    let forged =
        two.their_claims.iter().map(|wake| Claimed { org: two.stage.db.org, ..wake.clone() });
    let misled = Claimed { org: two.theirs, trace: Some("f".repeat(32)), ..wake };
    for wake in forged.chain([misled]) {
        worker.finish_check(&wake, &Outcome::Converged, at(18)).await.unwrap();
        worker.finish_wakes(std::slice::from_ref(&wake), at(18)).await.unwrap();
        worker.retry_wake(&wake, Duration::ZERO, "later", at(18)).await.unwrap();
        worker.poison_wake(&wake, "a defect", at(18)).await.unwrap();
        theirs.assert_untouched_by(&format!("a forged claim of {}", wake.unit.kind())).await;
    }
    orgs_agree(&two.stage).await;
}

/// S17.
#[tokio::test]
async fn s17_recording_reports_of_one_org_does_not_touch_another() {
    let two = two().await;
    let Two { stage, observer, their_web, .. } = &two;
    let (worker, lease) = (&stage.db.worker, observer.lease);
    let theirs = Rows::of(stage, two.theirs).await;
    let web = stage.find("web").await.unwrap();

    // Reports of objects that belong to another org.
    let mut lies = converged(&web, 1);
    let mut seen_elsewhere = seen(their_web, 1, 1);
    seen_elsewhere.objects.iter_mut().for_each(|object| "forged".clone_into(&mut object.uid));
    let key = seen_elsewhere.objects[0].key.clone();
    lies.observation = Some(seen_elsewhere);
    assert_eq!(worker.record_reports(lease, &[lies.clone()], at(10)).await.unwrap(), 1);
    theirs.assert_untouched_by("an observation").await;
    lies.changes = vec![ObjectChange::Removed { key }];
    assert_eq!(worker.record_reports_once(lease, next_batch(), &[lies], at(11)).await.unwrap(), 1);
    theirs.assert_untouched_by("a removal").await;

    // Reports that name the wrong org are ignored.
    let of_theirs = Report { org: stage.db.org, ..converged(their_web, 1) };
    let for_them = Report { org: two.theirs, ..gone(&web, 1) };
    assert_eq!(worker.record_reports(lease, &[of_theirs, for_them], at(12)).await.unwrap(), 0);
    theirs.assert_untouched_by("a report with the wrong org").await;

    let lost = pod(&web, "a", 5, Some("n1"));
    let mut candidate = pod(their_web, "b", 6, Some("n1"));
    candidate["metadata"]["namespace"] = web.namespace.clone().into();
    let updates = [present(Kind::Pod, &lost, at(13)), present(Kind::Pod, &candidate, at(13))];
    assert_eq!(worker.note_transitions(observer, &updates, at(13)).await.unwrap(), 4);
    theirs.assert_untouched_by("a pod with their label in our namespace").await;
    let (settings, org) = (BillingSettings::default(), stage.db.org);
    let policy = settings.gap_policy;
    assert!(worker.meter(lease, 100, policy, at(13)).await.unwrap().marks > 0);
    theirs.assert_untouched_by("metering our pods").await;
    worker.accrue(org, &settings, at(13)).await.unwrap();
    theirs.assert_untouched_by("posting our usage").await;
    let wanted = SubscriptionRequest { offer: "enterprise", version: None, next_period: true };
    let (app, context) = (&stage.db.app, stage.context());
    app.put_subscription(org, wanted, &settings, &context, at(13)).await.unwrap();
    let begun = at(40 * 86_400);
    assert!(worker.apply_limits(org, begun).await.unwrap());
    theirs.assert_untouched_by("applying our limits").await;

    for service in ["web", "more"] {
        let row = stage.delete(service).await.unwrap().row;
        let proved = gone(&row, row.service.generation);
        assert_eq!(worker.record_reports(lease, &[proved], at(14)).await.unwrap(), 1);
        theirs.assert_untouched_by("the deletion of a service").await;
    }
    let ended = stage.db.app.delete_project(stage.db.org, PROJECT, &stage.context(), at(15)).await;
    assert_eq!(
        worker.record_reports(lease, &[proof(&ended.unwrap().row)], at(16)).await.unwrap(),
        1
    );
    theirs.assert_untouched_by("the deletion of a project").await;
    sqlx::query("update idempotency_keys set created_at = '2000-01-01' where org_id = $1")
        .bind(stage.db.org.uuid())
        .execute(&stage.owner)
        .await
        .unwrap();
    assert!(worker.purge_idempotency_keys(at(17)).await.unwrap() > 0);
    theirs.assert_untouched_by("purge_idempotency_keys").await;
    sqlx::query(
        "update divergences set gone_at = '2000-01-01', ended_at = '2000-01-01', state = 'reverted'
         where org_id = $1",
    )
    .bind(stage.db.org.uuid())
    .execute(&stage.owner)
    .await
    .unwrap();
    assert!(worker.purge_divergences(at(17)).await.unwrap() > 0);
    theirs.assert_untouched_by("purge_divergences").await;
    stage.seal().await;
    theirs.assert_untouched_by("seal_events").await;
    orgs_agree(stage).await;
}

/// S17.
#[tokio::test]
async fn s17_previews_of_one_org_do_not_touch_another() {
    let two = two().await;
    let (stage, lease) = (&two.stage, two.observer.lease);
    let worker = &stage.db.worker;
    let theirs = Rows::of(stage, two.theirs).await;
    let pending = worker.pending_previews(lease.scope, 9, at(10)).await.unwrap();
    let is_ours =
        |pending: &&PendingPreview| pending.order.as_ref().is_ok_and(|it| it.org == stage.db.org);
    let ours: Vec<_> = pending.iter().filter(is_ours).map(|pending| pending.id).collect();
    assert_eq!((pending.len(), ours.len()), (2, 1));
    let filled = PreviewResult::Filled(exact_preview());
    worker.finish_preview(lease, ours[0], &filled, at(11)).await.unwrap();
    theirs.assert_untouched_by("finish_preview").await;
    let open = worker.open_previews(lease.scope, at(12)).await.unwrap();
    assert_eq!(open.into_iter().map(|(id, ..)| id).collect::<Vec<_>>(), ours);
    worker.record_preview_checks(lease, &ours, &[], at(12)).await.unwrap();
    worker
        .record_preview_checks(lease, &[], &[(ours[0], "changed".to_owned())], at(13))
        .await
        .unwrap();
    theirs.assert_untouched_by("record_preview_checks").await;
    sqlx::query("update preview_requests set expires_at = '2000-01-01' where org_id = $1")
        .bind(stage.db.org.uuid())
        .execute(&stage.owner)
        .await
        .unwrap();
    assert_eq!(worker.purge_previews(at(14)).await.unwrap(), 1);
    theirs.assert_untouched_by("purge_previews").await;
    orgs_agree(stage).await;
}

/// S17.
#[tokio::test]
async fn s17_dns_checks_of_one_org_do_not_touch_another() {
    let (stage, ours, theirs) = two_orgs().await;
    let worker = &stage.db.worker;
    let rows = Rows::of(&stage, theirs).await;
    let due = worker.claim_dns_checks(8, 8, &[theirs], at(60)).await.unwrap();
    assert_eq!(due.iter().map(|check| check.org).collect::<Vec<_>>(), [ours]);
    rows.assert_untouched_by("claim_dns_checks").await;
    worker
        .record_dns_check(&due[0], DnsResult::OtherTexts, "one TXT record", at(61))
        .await
        .unwrap();
    rows.assert_untouched_by("record_dns_check").await;
    assert!(worker.note_contested(&due[0], at(62)).await.unwrap());
    assert!(!worker.note_contested(&due[0], at(63)).await.unwrap(), "the event is emitted once");
    rows.assert_untouched_by("note_contested").await;

    // A check that names another org than the domain's writes nothing.
    let their_domain = stage.db.app.list_domains(theirs, PROJECT).await.unwrap().unwrap()[0].id;
    let forged = DueDnsCheck { domain: their_domain, ..due[0].clone() };
    worker.record_dns_check(&forged, DnsResult::Nothing, "nothing", at(64)).await.unwrap();
    assert!(!worker.note_contested(&forged, at(64)).await.unwrap());
    assert!(!stage.db.app.record_verified_domain(ours, their_domain, at(64)).await.unwrap());
    rows.assert_untouched_by("a forged check").await;
    assert!(stage.db.app.record_verified_domain(ours, due[0].domain, at(65)).await.unwrap());
    rows.assert_untouched_by("record_verified_domain").await;
    orgs_agree(&stage).await;
}

/// S17.
#[tokio::test]
async fn s17_confirmations_of_one_org_do_not_touch_another() {
    let (stage, ours, theirs) = two_orgs().await;
    let worker = &stage.db.worker;
    for table in ["identities", "provider_domains"] {
        let due = format!("update {table} set next_check_at = created_at where org_id = $1");
        sqlx::query(sqlx::AssertSqlSafe(due))
            .bind(ours.uuid())
            .execute(&stage.owner)
            .await
            .unwrap();
    }
    let rows = Rows::of(&stage, theirs).await;
    let due = worker.claim_confirmations(9, at(60)).await.unwrap();
    assert_eq!(due.iter().map(|one| one.connection.org).collect::<Vec<_>>(), [ours]);
    rows.assert_untouched_by("claim_confirmations").await;
    let again = jiff::SignedDuration::from_secs(30);
    assert!(worker.note_provider_failure(&due[0], "no answer", again, at(61)).await.unwrap());
    rows.assert_untouched_by("note_provider_failure").await;
    let due = worker.claim_provider_domains(9, at(60)).await.unwrap();
    assert_eq!(due.iter().map(|one| one.org).collect::<Vec<_>>(), [ours]);
    rows.assert_untouched_by("claim_provider_domains").await;
    let (result, forged) = (DnsResult::Nothing, DueDnsCheck { org: theirs, ..due[0].clone() });
    worker.record_provider_dns_check(&forged, result, "nothing", at(62)).await.unwrap();
    worker.record_provider_dns_check(&due[0], result, "nothing", at(62)).await.unwrap();
    rows.assert_untouched_by("record_provider_dns_check").await;
    orgs_agree(&stage).await;
}

/// S17.
#[tokio::test]
async fn s17_deciding_proposals_of_one_org_does_not_touch_another() {
    let two = two().await;
    let (stage, lease) = (&two.stage, two.observer.lease);
    let worker = &stage.db.worker;
    let web = stage.find("web").await.unwrap();
    let theirs = Rows::of(stage, two.theirs).await;
    let proposed = [standing(&web, 5, DivergenceState::Proposed)];
    assert_eq!(worker.record_reports(lease, &proposed, at(10)).await.unwrap(), 1);
    let waiting = worker.waiting_proposals(lease.scope, None, 9).await.unwrap();
    assert_eq!(waiting.iter().map(|it| it.org).collect::<Vec<_>>(), [stage.db.org]);
    // A proposal that names another org than its own is not decided.
    let forged = WaitingProposal { org: two.theirs, ..waiting[0].clone() };
    assert!(!worker.reject_proposal(lease, &forged, "why", at(11)).await.unwrap());
    assert!(worker.reject_proposal(lease, &waiting[0], "why", at(11)).await.unwrap());
    theirs.assert_untouched_by("reject_proposal").await;
    for report in [reverted(&web, 5, Verdict::Enforce), reverted(&web, 5, Verdict::Adopt)] {
        assert_eq!(worker.record_reports(lease, &[report], at(12)).await.unwrap(), 1);
    }
    assert_eq!(worker.expire_proposals(lease, at(90_000)).await.unwrap(), 1);
    theirs.assert_untouched_by("expire_proposals").await;
    orgs_agree(stage).await;
}

/// S17: functions about a cluster, its lease or the platform write no tenant rows.
#[tokio::test]
async fn s17_platform_functions_write_no_tenant_rows() {
    let two = two().await;
    let (stage, worker) = (&two.stage, &two.stage.db.worker);
    let cluster = stage.db.cluster;
    stage.sweep(vec![candidate("kept", true)], 10).await;
    let found = stage.db.app.list_findings(false, None, 9).await.unwrap();
    stage.db.app.remove_finding(found[0].id, None, &stage.context(), at(11)).await.unwrap();
    let lease = stage.lease().await;
    let rows = [Rows::of(stage, stage.db.org).await, Rows::of(stage, two.theirs).await];

    worker.renew_lease(lease, at(12)).await.unwrap();
    let observer = Observer { lease, ..two.observer.clone() };
    worker.record_watermarks(&observer, &Freshness::all_at(at(12))).await.unwrap();
    worker.watermarks(cluster).await.unwrap();
    worker.next_confirmation().await.unwrap();
    worker.balance_capacity(lease, at(12)).await.unwrap();
    worker.orgs_to_accrue(at(12)).await.unwrap();
    worker.orgs_to_limit(at(12)).await.unwrap();
    worker.periods_to_close(at(12)).await.unwrap();
    worker.running_services(stage.db.org, None).await.unwrap();
    assert_eq!(worker.pending_previews(cluster, 9, at(12)).await.unwrap().len(), 2);
    worker.open_previews(cluster, at(12)).await.unwrap();
    assert_eq!(worker.requested_removals(cluster).await.unwrap().len(), 1);
    worker.end_removal(lease, &found[0], Some("it changed"), at(12)).await.unwrap();
    let swept = SweepResult { kind: Kind::Secret, candidates: vec![candidate("another", true)] };
    assert_eq!(worker.note_findings(lease, &swept, at(12)).await.unwrap(), 1);
    worker.lane_loads(cluster).await.unwrap();
    worker.find_freeze(cluster).await.unwrap();
    worker.next_dns_check().await.unwrap();
    worker.next_schedule(cluster).await.unwrap();
    worker.due_schedules(cluster, at(12), 9).await.unwrap();
    worker.rearm_schedules(cluster, at(12)).await.unwrap();
    worker.overdue_deletes(cluster, at(12)).await.unwrap();
    worker.record_watches(lease, &Freshness::all_at(at(13))).await.unwrap();
    worker.freshness(cluster).await.unwrap();
    assert!(!worker.order_marks(cluster).await.unwrap().is_empty());
    worker.accepted_at(&[]).await.unwrap();
    // Of statuses that the present rules computed, nothing changes.
    worker.reproject_statuses(lease, None, 9, at(13)).await.unwrap();
    let why = "connection refused".to_owned();
    let change = ReachabilityChange::Unreachable { why, since: at(12) };
    worker.record_reachability(lease, &change, at(13)).await.unwrap();
    assert_eq!(worker.unreachable_since(cluster).await.unwrap(), Some(at(12)));
    worker.note_cluster(cluster, Some("it is there")).await.unwrap();
    worker.recognise_cluster(cluster, "one", false, at(13)).await.unwrap();
    worker.recognise_cluster(cluster, "two", true, at(13)).await.unwrap();
    let mut heard = worker.listen().await.unwrap();
    worker.ring("one", Notification::Wake).await.unwrap();
    assert_eq!(heard.next().await.unwrap(), Some(("one".to_owned(), Notification::Wake)));
    worker.release_lease(lease, at(14)).await.unwrap();
    for rows in rows {
        rows.assert_untouched_by("platform functions").await;
    }
}

/// No row refers to an object of another org.
async fn orgs_agree(stage: &Stage) {
    let units = "(select id, org_id from services union all select id, org_id from projects)";
    let parents = [
        ("service_id", "services"),
        ("project_id", "projects"),
        ("event_id", "events"),
        ("endpoint_id", "endpoints"),
        ("subject_id", units),
    ];
    for (column, parent) in parents {
        let tables: Vec<String> = stage
            .all(&format!(
                "select table_name::text from information_schema.columns c
                 where table_schema = 'public' and column_name = '{column}'
                   and exists (select from information_schema.columns o
                               where o.table_name = c.table_name and o.column_name = 'org_id')"
            ))
            .await;
        for table in tables {
            let candidates: i64 = stage
                .one(&format!(
                    "select count(*) from {table} t join {parent} p on p.id = t.{column}
                     where p.org_id <> t.org_id"
                ))
                .await;
            assert_eq!(candidates, 0, "{table}.{column}");
        }
    }
}
