//! Events of reports: each fact once, in order, with its cause; and the stored form of each fact.

mod people;

use serde_json::Value;
use trueup_model::drift::{
    ConflictDecision, Divergence, DivergenceClass, DivergenceState, Verdict,
};
use trueup_model::event::{
    AbsenceVerified, ClusterReachable, ClusterReplaced, ClusterUnreachable, ConflictRaised,
    ConflictSettled, DomainAdded, DomainCheckRequested, DomainContested, DomainRemoved,
    DomainVerified, DriftAdopted, DriftDetected, DriftEnded, DriftIgnored, DriftProposed,
    DriftRejected, DriftReverted, EndpointClosed, EndpointOpened, Fact, FindingOpened,
    InvitationCreated, InvitationRevoked, MemberRemoved, OrgCreated, OrgDeleteQueued,
    PlatformFrozen, PlatformUnfrozen, ProjectDeleteForced, ProjectDeleteQueued, ProjectForceQueued,
    ProjectRoleGranted, ProjectRoleRevoked, QuotaChanged, ReconcileChecked, ReconcileDeferred,
    ReconcileFailed, ReconcileRequested, ResourceCreated, ResourceDeletedExternally,
    ResourceModifiedExternally, ResourceRemoved, ResourceUpdated, RoutingChanged, SecretDeleted,
    SecretSet, ServiceDeleteForced, ServiceFrozen, ServicePhaseChanged, ServiceQueued,
    ServiceScheduleRefused, ServiceScheduledOff, ServiceScheduledOn, ServiceUnfrozen,
    SignInRefused, SignedIn, SignedOut, TemplateDeprecated, TokenCreated, TokenRevoked,
    VariableDeleted, VariableSet, WakeRequeued,
};
use trueup_model::finding::FindingClass;
use trueup_model::id::{ConflictId, DivergenceId};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;
use trueup_model::principal::Role;
use trueup_model::quota::Amounts;
use trueup_model::receipt::{Absence, Force, ProofLevel, Reading, Receipt, Unproven};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Inputs, Phase, Status};
use trueup_rules::event::draft::{Cause, EventDraft, facts};
use trueup_rules::status::project;

use crate::billing_facts::after_billing;
use crate::given::{at, org, service};
use crate::projection::{inputs, unreachable, waiting};

fn key() -> ResourceKey {
    ResourceKey::new(Kind::Deployment, "shop", "web")
}

fn created() -> ObjectChange {
    ObjectChange::Created { key: key() }
}

fn edited() -> ObjectChange {
    edited_in(&["spec.replicas"])
}

fn edited_in(fields: &[&str]) -> ObjectChange {
    let reverted = fields.iter().map(|field| divergence(field, DivergenceState::Reverted));
    ObjectChange::ModifiedExternally { key: key(), fields: reverted.collect() }
}

fn divergence(field: &str, state: DivergenceState) -> Divergence {
    Divergence {
        key: key(),
        field: field.to_owned(),
        class: DivergenceClass::Edited,
        wanted: Value::Null,
        live: Value::Null,
        by: None,
        verdict: Verdict::Enforce,
        state,
    }
}

fn failed() -> Outcome {
    Outcome::Failed { why: "quota".to_owned() }
}

/// One report: its generation, whether it was applied, its outcome and its changes.
struct ReportStep {
    generation: i64,
    applied: bool,
    outcome: Outcome,
    changes: Vec<ObjectChange>,
}

fn step(outcome: Outcome, applied: bool, changes: &[ObjectChange]) -> ReportStep {
    ReportStep { generation: 1, applied, outcome, changes: changes.to_vec() }
}

/// The events of each report, one line per report: names and causes.
fn event_lines(steps: &[ReportStep]) -> Vec<String> {
    let mut status = Status::accepted(at(0));
    let mut last: Option<Inputs> = None;
    let mut lines = Vec::new();
    for step in steps {
        let mut now = inputs(Phase::Accepted);
        now.previous = status.clone();
        now.generation = step.generation;
        now.observation.generation = step.generation;
        now.observation.applied = step.applied;
        now.outcome = step.outcome.clone();
        let projected = project(&now, at(1));
        let report = report(step);
        lines.push(event_line(&report, &status, last.as_ref(), &projected));
        (status, last) = (projected, Some(now));
    }
    lines
}

fn report(step: &ReportStep) -> Report {
    Report {
        unit: Unit::Service(service()),
        org: org(),
        generation: step.generation,
        observation: None,
        outcome: step.outcome.clone(),
        changes: step.changes.clone(),
        receipt: None,
        survey: None,
    }
}

fn event_line(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> String {
    let drafts = facts(report, previous, last, status);
    let word = |cause: Cause| match cause {
        Cause::Asked => "asked".to_owned(),
        Cause::Draft(index) => drafts[index].fact.name().to_owned(),
        Cause::Outside => "outside".to_owned(),
    };
    let lines = drafts.iter().map(|draft| format!("{}<{}", draft.fact.name(), word(draft.cause)));
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_first_reconciliation_emits_start_changes_and_success() {
    let lines = event_lines(&[
        step(waiting(), false, &[created()]),
        step(waiting(), false, &[created()]),
        step(Outcome::Converged, true, &[]),
        step(Outcome::Converged, true, &[]),
    ]);
    assert_eq!(
        lines,
        [
            "ReconcileStarted<asked ResourceCreated<asked ServicePhaseChanged<asked",
            "ResourceCreated<asked",
            "ReconcileSucceeded<asked ServicePhaseChanged<asked",
            "",
        ]
    );
}

#[test]
fn success_is_emitted_after_an_earlier_applied_report() {
    let lines = event_lines(&[
        step(waiting(), true, &[created()]),
        step(Outcome::Converged, true, &[]),
        step(Outcome::Converged, true, &[]),
    ]);
    assert!(lines[0].starts_with("ReconcileStarted<asked ResourceCreated<asked"), "{lines:?}");
    assert!(!lines[0].contains("Succeeded"), "{lines:?}");
    assert_eq!(lines[1..], ["ReconcileSucceeded<asked", ""]);
}

#[test]
fn one_report_may_emit_all_events() {
    let lines = event_lines(&[step(Outcome::Converged, true, &[created()])]);
    assert_eq!(
        lines,
        [
            "ReconcileStarted<asked ResourceCreated<asked ReconcileSucceeded<asked ServicePhaseChanged<asked"
        ]
    );
}

#[test]
fn external_changes_cause_their_repair() {
    let deleted = ObjectChange::DeletedExternally { key: key() };
    let lines = event_lines(&[
        step(Outcome::Converged, true, &[]),
        step(Outcome::Converged, true, &[edited()]),
        step(Outcome::Converged, true, &[deleted]),
        step(Outcome::Converged, true, &[edited(), created()]),
    ]);
    assert_eq!(
        lines[1..],
        [
            "ResourceModifiedExternally<outside DriftDetected<ResourceModifiedExternally \
             ReconcileStarted<DriftDetected DriftReverted<DriftDetected \
             ReconcileSucceeded<DriftDetected",
            "ResourceDeletedExternally<outside ReconcileStarted<ResourceDeletedExternally \
             ReconcileSucceeded<ResourceDeletedExternally",
            // With a requested change as well, the request is the cause.
            "ResourceModifiedExternally<outside DriftDetected<ResourceModifiedExternally \
             ReconcileStarted<asked DriftReverted<DriftDetected ResourceCreated<asked \
             ReconcileSucceeded<asked",
        ]
    );
}

/// The fields of the facts with this name.
fn fields(drafts: &[EventDraft], name: &str) -> Vec<String> {
    let facts = drafts.iter().filter(|draft| draft.fact.name() == name);
    let stored = facts
        .map(|draft| serde_json::to_value(&draft.fact).expect("a fact is JSON")["field"].clone());
    stored.map(|field| field.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_reverted_field_has_its_events_up_to_eight() {
    let (status, last) = (Status::accepted(at(0)), inputs(Phase::Running));
    let named: Vec<String> = (0..10).map(|number| format!("spec.{number}")).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    for (count, expected) in [
        (2, vec!["spec.0", "spec.1"]),
        (8, named[..8].to_vec()),
        (10, {
            let mut first = named[..7].to_vec();
            first.push("spec.7, and 2 more");
            first
        }),
    ] {
        let change = edited_in(&named[..count]);
        let report = report(&step(Outcome::Converged, true, &[change]));
        let drafts = facts(&report, &status, Some(&last), &status);
        for name in ["ResourceModifiedExternally", "DriftDetected", "DriftReverted"] {
            assert_eq!(fields(&drafts, name), expected, "{name}");
        }
    }
}

#[test]
fn ignored_drift_is_an_event_once() {
    let status = Status::accepted(at(0));
    let seen = |divergences: &[Divergence]| {
        let mut inputs = inputs(Phase::Running);
        inputs.observation.divergences = divergences.to_vec();
        inputs
    };
    let ignored = |field| divergence(field, DivergenceState::Ignored);
    let table = [
        ("it is new", vec![], vec![ignored("a"), ignored("b")], vec!["a", "b"]),
        ("it is known", vec![ignored("a")], vec![ignored("a"), ignored("b")], vec!["b"]),
        (
            "it was open",
            vec![divergence("a", DivergenceState::Open)],
            vec![ignored("a")],
            vec!["a"],
        ),
        ("it ended", vec![ignored("a")], vec![], vec![]),
        ("it is in conflict", vec![], vec![divergence("a", DivergenceState::InConflict)], vec![]),
    ];
    for (what, before, now, expected) in table {
        let observation = Some(seen(&now).observation);
        let report = Report { observation, ..report(&step(Outcome::Converged, true, &[])) };
        let drafts = facts(&report, &status, Some(&seen(&before)), &status);
        assert_eq!(fields(&drafts, "DriftIgnored"), expected, "{what}");
    }
}

#[test]
fn an_outage_emits_one_deferral_and_no_start() {
    let lines = event_lines(&[
        step(unreachable(), false, &[]),
        step(unreachable(), false, &[]),
        step(waiting(), false, &[created()]),
        step(Outcome::Converged, true, &[]),
        step(unreachable(), true, &[]),
        step(Outcome::Converged, true, &[]),
    ]);
    let names: Vec<String> = lines
        .iter()
        .map(|line| line.replace("<asked", "").replace("ServicePhaseChanged", ""))
        .collect();
    let names: Vec<&str> = names.iter().map(|line| line.trim()).collect();
    assert_eq!(
        names,
        [
            "ReconcileDeferred",
            "",
            "ReconcileStarted ResourceCreated",
            "ReconcileSucceeded",
            "ReconcileDeferred",
            "ReconcileSucceeded",
        ]
    );
}

#[test]
fn a_retry_after_a_failure_starts_no_new_reconciliation() {
    let lines = event_lines(&[
        step(failed(), false, &[created()]),
        step(failed(), false, &[]),
        step(waiting(), false, &[]),
        step(failed(), false, &[]),
    ]);
    let count = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert_eq!((count("ReconcileStarted"), count("ReconcileFailed")), (1, 2), "{lines:?}");
}

#[test]
fn a_new_generation_starts_a_new_reconciliation() {
    let second = ReportStep { generation: 2, ..step(waiting(), false, &[created()]) };
    let lines = event_lines(&[step(waiting(), true, &[created()]), second]);
    assert!(lines[1].starts_with("ReconcileStarted<asked"), "{lines:?}");
}

#[test]
fn a_deletion_emits_verified_absence() {
    let mut now = inputs(Phase::Running);
    now.desired = DesiredState::Deleted;
    now.absent = true;
    now.observation.applied = false;
    let absence = Absence { key: key(), uid: None, resource_version: None };
    let reading = Reading { began_at: at(1), ended_at: at(2) };
    let receipt = Receipt::of_absence(vec![absence], "one", vec![reading]);
    let gone = step(Outcome::Converged, false, &[]);
    let report = Report { receipt: Some(receipt), ..report(&gone) };
    let line =
        event_line(&report, &now.previous, Some(&inputs(Phase::Running)), &project(&now, at(1)));
    assert_eq!(line, "ServicePhaseChanged<asked AbsenceVerified<asked");
}

#[test]
fn a_forced_deletion_emits_no_verified_absence() {
    let mut now = inputs(Phase::Deleting);
    now.desired = DesiredState::Deleted;
    now.absent = true;
    now.observation.applied = false;
    let force = Force { principal: "owner".to_owned(), reason: "the node burnt".to_owned() };
    let left = Unproven { key: key(), uid: None, why: "it is still there".to_owned() };
    let receipt = Receipt {
        unproven: vec![left],
        force: Some(force),
        level: ProofLevel::Forced,
        ..Receipt::of_absence(Vec::new(), "one", Vec::new())
    };
    let report = Report { receipt: Some(receipt), ..report(&step(Outcome::Converged, false, &[])) };
    let line = |report: &Report| {
        event_line(report, &now.previous, Some(&inputs(Phase::Deleting)), &project(&now, at(1)))
    };
    assert_eq!(line(&report), "ServicePhaseChanged<asked ServiceDeleteForced<asked");
    let project = trueup_model::id::ProjectId::from_uuid(uuid::Uuid::from_u128(7));
    let report = Report { unit: Unit::Project(project), ..report };
    assert_eq!(line(&report), "ServicePhaseChanged<asked ProjectDeleteForced<asked");
}

/// The fact after this one: a fact that is added to the model must be added here.
#[expect(clippy::too_many_lines, reason = "a table with a row for each fact")]
fn after(fact: &Fact) -> Option<Fact> {
    let (key, field) = (key(), "spec.replicas".to_owned());
    let (why, reason) = ("the cluster said so".to_owned(), "the node burnt".to_owned());
    let principal = "owner".to_owned();
    let token = trueup_model::TokenId::from_uuid(uuid::Uuid::from_u128(5));
    let session = trueup_model::id::SessionId::from_uuid(uuid::Uuid::from_u128(6));
    let user = trueup_model::UserId::from_uuid(uuid::Uuid::from_u128(8));
    let project = trueup_model::ProjectId::from_uuid(uuid::Uuid::from_u128(10));
    let invitation = trueup_model::id::InvitationId::from_uuid(uuid::Uuid::from_u128(9));
    Some(match fact {
        Fact::ProjectQueued {} => {
            Fact::ProjectDeleteQueued(ProjectDeleteQueued { principal, services: 2 })
        }
        Fact::ProjectDeleteQueued(_) => {
            Fact::ProjectForceQueued(ProjectForceQueued { principal, reason })
        }
        Fact::ProjectForceQueued(_) => {
            let action = "declare".to_owned();
            Fact::ServiceQueued(ServiceQueued { deletes: false, principal, action, preview: None })
        }
        Fact::ServiceQueued(_) => Fact::ReconcileStarted {},
        Fact::ReconcileStarted {} => Fact::ReconcileSucceeded {},
        Fact::ReconcileSucceeded {} => Fact::ReconcileFailed(ReconcileFailed { why }),
        Fact::ReconcileFailed(_) => Fact::ReconcileDeferred(ReconcileDeferred { why }),
        Fact::ReconcileDeferred(_) => Fact::ResourceCreated(ResourceCreated { key }),
        Fact::ResourceCreated(_) => Fact::ResourceUpdated(ResourceUpdated { key }),
        Fact::ResourceUpdated(_) => Fact::ResourceRemoved(ResourceRemoved { key }),
        Fact::ResourceRemoved(_) => {
            Fact::ResourceDeletedExternally(ResourceDeletedExternally { key })
        }
        Fact::ResourceDeletedExternally(_) => {
            Fact::ResourceModifiedExternally(ResourceModifiedExternally {
                key,
                field,
                by: Some("kubectl-edit".to_owned()),
            })
        }
        Fact::ResourceModifiedExternally(_) => Fact::DriftDetected(DriftDetected { key, field }),
        Fact::DriftDetected(_) => Fact::DriftReverted(DriftReverted { key, field }),
        Fact::DriftReverted(_)
        | Fact::DriftIgnored(_)
        | Fact::DriftProposed(_)
        | Fact::DriftAdopted(_)
        | Fact::DriftRejected(_)
        | Fact::DriftEnded(_)
        | Fact::ConflictRaised(_)
        | Fact::ConflictSettled(_) => return after_drift(fact),
        Fact::ServicePhaseChanged(_) => Fact::AbsenceVerified(AbsenceVerified { keys: 6 }),
        Fact::AbsenceVerified(_) => {
            Fact::ServiceDeleteForced(ServiceDeleteForced { principal, reason, unproven: 2 })
        }
        Fact::ServiceDeleteForced(_) => {
            Fact::ProjectDeleteForced(ProjectDeleteForced { principal, reason, unproven: 3 })
        }
        Fact::ProjectDeleteForced(_) => {
            Fact::OrgCreated(OrgCreated { name: "acme".to_owned(), principal })
        }
        Fact::OrgCreated(_) => {
            Fact::OrgDeleteQueued(OrgDeleteQueued { projects: 2, services: 5, principal })
        }
        Fact::OrgDeleteQueued(_) => {
            Fact::TokenCreated(TokenCreated { token, name: None, role: Role::Developer, principal })
        }
        Fact::TokenCreated(_) => Fact::TokenRevoked(TokenRevoked { token, name: None, principal }),
        Fact::TokenRevoked(_) => Fact::SignedIn(SignedIn { session, principal }),
        Fact::SignedIn(_) => Fact::SignedOut(SignedOut { session, principal }),
        Fact::SignedOut(_) => Fact::SignInRefused(SignInRefused { user: None }),
        Fact::MemberRoleChanged(_) => Fact::ProjectRoleGranted(ProjectRoleGranted {
            user,
            project,
            role: Role::Admin,
            principal,
        }),
        Fact::ProjectRoleGranted(_) => Fact::ProjectRoleRevoked(ProjectRoleRevoked {
            user,
            project,
            role: Role::Admin,
            principal,
        }),
        Fact::ProjectRoleRevoked(_) => Fact::MemberRemoved(MemberRemoved { user, principal }),
        Fact::MemberRemoved(_) => Fact::InvitationCreated(InvitationCreated {
            invitation,
            role: Role::Auditor,
            principal,
        }),
        Fact::InvitationCreated(_) => {
            Fact::InvitationRevoked(InvitationRevoked { invitation, principal })
        }
        Fact::SignInRefused(_)
        | Fact::MemberAdded(_)
        | Fact::InvitationRevoked(_)
        | Fact::ProviderChanged(_)
        | Fact::ProviderDeleted(_)
        | Fact::ProviderCheckRequested(_)
        | Fact::ProviderDomainVerified(_)
        | Fact::ProviderUnavailable(_)
        | Fact::ProviderAnswers(_)
        | Fact::ProviderSignInRefused(_)
        | Fact::IdentityLinked(_)
        | Fact::IdentityEnded(_) => return Some(people::after(fact)),
        Fact::PlanChanged(_) => Fact::RoutingChanged(RoutingChanged {
            cluster: "local".to_owned(),
            routing: crate::domains::with_gateway(),
            principal,
        }),
        Fact::RoutingChanged(_)
        | Fact::ClusterReplaced(_)
        | Fact::ClusterUnreachable(_)
        | Fact::ClusterReachable(_)
        | Fact::TemplatePublished(_)
        | Fact::TemplateDeprecated(_)
        | Fact::EndpointOpened(_)
        | Fact::EndpointClosed(_)
        | Fact::DomainAdded(_)
        | Fact::DomainVerified(_)
        | Fact::DomainCheckRequested(_)
        | Fact::DomainContested(_)
        | Fact::DomainRemoved(_)
        | Fact::VariableSet(_)
        | Fact::VariableDeleted(_)
        | Fact::SecretSet(_)
        | Fact::SecretDeleted(_) => return after_settings(fact),
        Fact::QuotaChanged(_)
        | Fact::BillingAccountChanged(_)
        | Fact::BudgetChanged(_)
        | Fact::BudgetReached(_)
        | Fact::OfferPublished(_)
        | Fact::SubscriptionChanged(_)
        | Fact::BalanceExhausted(_)
        | Fact::CreditGranted(_)
        | Fact::InvoiceIssued(_)
        | Fact::InvoicePaid(_)
        | Fact::InvoiceVoided(_) => return after_billing(fact),
        Fact::WakeRequeued(_)
        | Fact::ReconcileRequested(_)
        | Fact::ReconcileChecked(_)
        | Fact::ServiceFrozen(_)
        | Fact::ServiceUnfrozen(_)
        | Fact::ServiceScheduledOff(_)
        | Fact::ServiceScheduledOn(_)
        | Fact::ServiceScheduleRefused(_)
        | Fact::PlatformFrozen(_)
        | Fact::PlatformUnfrozen(_) => return after_controls(fact),
        Fact::FindingOpened(_)
        | Fact::FindingClosed(_)
        | Fact::FindingRemovalRequested(_)
        | Fact::FindingKept(_) => return crate::event_findings::after_finding(fact),
    })
}

/// The facts about drift and conflicts.
fn after_drift(fact: &Fact) -> Option<Fact> {
    let (key, field, principal) = (key(), "spec.replicas".to_owned(), "owner".to_owned());
    let divergence = DivergenceId::from_uuid(uuid::Uuid::from_u128(8));
    let conflict = ConflictId::from_uuid(uuid::Uuid::from_u128(9));
    let by = Some("kubectl-edit".to_owned());
    Some(match fact {
        Fact::DriftReverted(_) => Fact::DriftIgnored(DriftIgnored { key, field }),
        Fact::DriftIgnored(_) => {
            let expires_at = "2026-01-02T03:04:05Z".parse().expect("a time");
            Fact::DriftProposed(DriftProposed { divergence, key, field, expires_at })
        }
        Fact::DriftProposed(_) => {
            let (parameter, undo) = ("replicas".to_owned(), 2);
            Fact::DriftAdopted(DriftAdopted { divergence, key, field, parameter, undo, principal })
        }
        Fact::DriftAdopted(_) => {
            Fact::DriftRejected(DriftRejected { divergence, key, field, principal })
        }
        Fact::DriftRejected(_) => {
            let class = DivergenceClass::Edited;
            Fact::DriftEnded(DriftEnded { key, field, class })
        }
        Fact::DriftEnded(_) => Fact::ConflictRaised(ConflictRaised { conflict, key, field, by }),
        Fact::ConflictRaised(_) => {
            let (decision, until) = (ConflictDecision::Ours, None);
            Fact::ConflictSettled(ConflictSettled {
                conflict,
                key,
                field,
                decision,
                until,
                principal,
            })
        }
        Fact::ConflictSettled(_) => Fact::ServicePhaseChanged(ServicePhaseChanged {
            phase: Phase::Running,
            health: Health::Healthy,
            message: Some("why".to_owned()),
        }),
        _ => return None,
    })
}

/// The facts about wakes, reconciles and freezes.
fn after_controls(fact: &Fact) -> Option<Fact> {
    let (principal, reason) = ("owner".to_owned(), "an audit".to_owned());
    let cluster = Some("local".to_owned());
    Some(match fact {
        Fact::WakeRequeued(_) => Fact::ReconcileRequested(ReconcileRequested { principal }),
        Fact::ReconcileRequested(_) => {
            Fact::ReconcileChecked(ReconcileChecked { outcome: "converged".to_owned() })
        }
        Fact::ReconcileChecked(_) => Fact::ServiceFrozen(ServiceFrozen { reason, principal }),
        Fact::ServiceFrozen(_) => Fact::ServiceUnfrozen(ServiceUnfrozen { principal }),
        Fact::ServiceUnfrozen(_) => {
            let until = "2026-01-02T08:00:00Z".parse().ok();
            Fact::ServiceScheduledOff(ServiceScheduledOff { until })
        }
        Fact::ServiceScheduledOff(_) => {
            Fact::ServiceScheduledOn(ServiceScheduledOn { until: None })
        }
        Fact::ServiceScheduledOn(_) => {
            Fact::ServiceScheduleRefused(ServiceScheduleRefused { why: "no budget".to_owned() })
        }
        Fact::ServiceScheduleRefused(_) => {
            Fact::PlatformFrozen(PlatformFrozen { cluster, reason, principal })
        }
        Fact::PlatformFrozen(_) => {
            Fact::PlatformUnfrozen(PlatformUnfrozen { cluster: None, principal })
        }
        Fact::PlatformUnfrozen(_) => Fact::FindingOpened(FindingOpened {
            key: ResourceKey::new(Kind::ConfigMap, "shop", "left"),
            class: FindingClass::Orphan,
            of: Some("svc_01h455vb4pex5vsknk084sn02q".to_owned()),
        }),
        _ => return None,
    })
}

/// The facts about routing, templates, endpoints, domains and variables.
fn after_settings(fact: &Fact) -> Option<Fact> {
    let (name, principal) = ("KEY".to_owned(), "owner".to_owned());
    let (endpoint, port) = ("play".to_owned(), "game".to_owned());
    let template = "web@1".parse().expect("a template");
    let host = "www.example.org".to_owned();
    Some(match fact {
        Fact::RoutingChanged(_) => Fact::ClusterReplaced(ClusterReplaced {
            cluster: "local".to_owned(),
            before: "5f3c".to_owned(),
            now: "81aa".to_owned(),
        }),
        Fact::ClusterReplaced(_) => Fact::ClusterUnreachable(ClusterUnreachable {
            why: "connection refused".to_owned(),
            since: "2026-01-02T03:04:05Z".parse().expect("a time"),
        }),
        Fact::ClusterUnreachable(_) => Fact::ClusterReachable(ClusterReachable { after_s: 75 }),
        Fact::ClusterReachable(_) => Fact::QuotaChanged(QuotaChanged {
            limit: Amounts { services: 3, ..Amounts::default() },
            principal,
        }),
        Fact::TemplatePublished(_) => Fact::TemplateDeprecated(TemplateDeprecated {
            template,
            instead: "use web@2".to_owned(),
            principal,
        }),
        Fact::TemplateDeprecated(_) => Fact::EndpointOpened(EndpointOpened {
            name: endpoint,
            port,
            node_port: 30_000,
            principal,
        }),
        Fact::EndpointOpened(_) => {
            Fact::EndpointClosed(EndpointClosed { name: endpoint, node_port: 30_000, principal })
        }
        Fact::EndpointClosed(_) => Fact::DomainAdded(DomainAdded { host, principal }),
        Fact::DomainAdded(_) => {
            Fact::DomainVerified(DomainVerified { host, verified: true, principal })
        }
        Fact::DomainVerified(_) => {
            Fact::DomainCheckRequested(DomainCheckRequested { host, principal })
        }
        Fact::DomainCheckRequested(_) => {
            Fact::DomainContested(DomainContested { host, claimant: org() })
        }
        Fact::DomainContested(_) => Fact::DomainRemoved(DomainRemoved { host, principal }),
        Fact::DomainRemoved(_) => Fact::VariableSet(VariableSet { name, version: 1, principal }),
        Fact::VariableSet(_) => {
            Fact::VariableDeleted(VariableDeleted { name, version: 2, principal })
        }
        Fact::VariableDeleted(_) => Fact::SecretSet(SecretSet { name, version: 1, principal }),
        Fact::SecretSet(_) => Fact::SecretDeleted(SecretDeleted { name, version: 2, principal }),
        Fact::SecretDeleted(_) => Fact::WakeRequeued(WakeRequeued { principal }),
        _ => return None,
    })
}

#[test]
fn every_fact_keeps_its_stored_form() {
    let all: Vec<Fact> = std::iter::successors(Some(Fact::ProjectQueued {}), after).collect();
    let mut text = String::new();
    for fact in &all {
        let stored = serde_json::to_value(fact).unwrap();
        assert_eq!(stored["type"], fact.name());
        assert!(!has_fraction(&stored), "fractions do not round-trip everywhere");
        assert_eq!(serde_json::from_value::<Fact>(stored.clone()).unwrap(), *fact);
        text += &format!("{}\n", serde_json::to_string(&stored).unwrap());
    }
    insta::assert_snapshot!("every_fact", text);
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
