//! An event as one line of text: time, what happened, and details.

mod provider;

use jiff::Timestamp;
use trueup_api::event::CloudEvent;
use trueup_model::event::{
    AbsenceVerified, BalanceExhausted, BillingAccountChanged, BudgetChanged, BudgetReached,
    ClusterReachable, ClusterReplaced, ClusterUnreachable, ConflictRaised, ConflictSettled,
    CreditGranted, DomainAdded, DomainCheckRequested, DomainContested, DomainRemoved,
    DomainVerified, DriftAdopted, DriftDetected, DriftEnded, DriftIgnored, DriftProposed,
    DriftRejected, DriftReverted, EndpointClosed, EndpointOpened, Fact, FindingClosed, FindingKept,
    FindingOpened, FindingRemovalRequested, InvitationCreated, InvitationRevoked, InvoiceIssued,
    InvoicePaid, InvoiceVoided, MemberAdded, MemberRemoved, MemberRoleChanged, OfferPublished,
    OrgCreated, OrgDeleteQueued, PlanChanged, PlatformFrozen, PlatformUnfrozen,
    ProjectDeleteForced, ProjectDeleteQueued, ProjectForceQueued, ProjectRoleGranted,
    ProjectRoleRevoked, PublishedPrice, QuotaChanged, ReconcileChecked, ReconcileDeferred,
    ReconcileFailed, ReconcileRequested, ResourceCreated, ResourceDeletedExternally,
    ResourceModifiedExternally, ResourceRemoved, ResourceUpdated, RoutingChanged, SecretDeleted,
    SecretSet, ServiceDeleteForced, ServiceFrozen, ServicePhaseChanged, ServiceQueued,
    ServiceScheduleRefused, ServiceScheduledOff, ServiceScheduledOn, ServiceUnfrozen,
    SignInRefused, SignedIn, SignedOut, Source, SubscriptionChanged, TemplateDeprecated,
    TemplatePublished, TokenCreated, TokenRevoked, VariableDeleted, VariableSet, WakeRequeued,
    wire_source,
};
use trueup_model::key::ResourceKey;
use trueup_model::money::Money;
use trueup_model::status::{Health, Phase};

use crate::output::human::{clean, clock_time, count, moment};
use crate::output::style::{self, Paint, Style};

const WIDTH: usize = 18;

/// The event's type without prefix and version: `ServicePhaseChanged`.
pub fn short_type(event: &CloudEvent) -> &str {
    let kind = event.kind.strip_prefix("dev.trueup.").unwrap_or(&event.kind);
    kind.split('.').next().unwrap_or(kind)
}

/// The line of an event. An unknown type is printed as it is, so an older client hides nothing.
pub fn event_line(event: &CloudEvent, style: Style) -> String {
    let (paint, what, detail) = words(event);
    let pad = " ".repeat(WIDTH.saturating_sub(what.chars().count()));
    let line = format!(
        "{}  {}{pad}  {}",
        style.paint(Paint::Faint, &clock_time(event.time)),
        style.paint(paint, &clean(&what)),
        clean(&detail)
    );
    line.trim_end().to_owned()
}

fn words(event: &CloudEvent) -> (Paint, String, String) {
    let mut data = event.data.clone();
    if let Some(name) = &event.principalname {
        data["principal"] = name.as_str().into();
    }
    let Ok(fact) = serde_json::from_value::<Fact>(data) else {
        return (Paint::Plain, short_type(event).to_owned(), event.data.to_string());
    };
    let (paint, what, detail) = sentence(&fact, event);
    (paint, what.to_owned(), detail)
}

/// Colour, what happened and details of a fact.
#[expect(clippy::too_many_lines, reason = "one line for each type of event")]
fn sentence(fact: &Fact, event: &CloudEvent) -> (Paint, &'static str, String) {
    let generation = format!("generation {}", event.generation);
    match fact {
        Fact::ProjectQueued {} => (Paint::Strong, "project accepted", generation),
        Fact::ReconcileStarted {} => (Paint::Plain, "started", generation),
        Fact::ReconcileSucceeded {} => (Paint::Good, "applied", generation),
        Fact::ServiceQueued(ServiceQueued { deletes, principal, preview, .. }) => {
            let what = if *deletes { "deletion accepted" } else { "accepted" };
            let preview = preview.map(|preview| format!(", from preview {preview}"));
            let preview = preview.unwrap_or_default();
            (Paint::Strong, what, format!("{generation}{}{preview}", by(principal)))
        }
        Fact::ServicePhaseChanged(ServicePhaseChanged { phase, health, message }) => {
            phase_change(*phase, *health, message.as_deref())
        }
        Fact::DomainVerified(DomainVerified { host, verified: true, .. })
            if event.source == wire_source(Source::System.into_str()) =>
        {
            (Paint::Good, "domain verified", format!("{host}, TXT record found in DNS"))
        }
        Fact::ProjectDeleteQueued(ProjectDeleteQueued { principal, services }) => {
            let services = count(*services, "service");
            (
                Paint::Strong,
                "project deletion",
                format!("accepted with {services}{}", by(principal)),
            )
        }
        Fact::ProjectForceQueued(ProjectForceQueued { principal, reason }) => {
            (Paint::Strong, "force requested", format!("{reason}{}", by(principal)))
        }
        Fact::ReconcileFailed(ReconcileFailed { why }) => {
            (Paint::Bad, "failed, will retry", why.clone())
        }
        Fact::ReconcileDeferred(ReconcileDeferred { why }) => {
            (Paint::Busy, "deferred", why.clone())
        }
        Fact::ResourceCreated(ResourceCreated { key }) => (Paint::Plain, "created", short(key)),
        Fact::ResourceUpdated(ResourceUpdated { key }) => (Paint::Plain, "updated", short(key)),
        Fact::ResourceRemoved(ResourceRemoved { key }) => (Paint::Plain, "removed", short(key)),
        Fact::ResourceDeletedExternally(ResourceDeletedExternally { key }) => {
            (Paint::Busy, "deleted by others", format!("{}; recreating it", short(key)))
        }
        Fact::ResourceModifiedExternally(ResourceModifiedExternally { key, field, by }) => {
            let by = by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
            (Paint::Busy, "edited by others", format!("{}: {field}{by}", short(key)))
        }
        Fact::DriftDetected(DriftDetected { key, field }) => {
            (Paint::Busy, "drift detected", place(key, field))
        }
        Fact::DriftReverted(DriftReverted { key, field }) => {
            (Paint::Busy, "drift reverted", place(key, field))
        }
        Fact::DriftIgnored(DriftIgnored { key, field }) => {
            (Paint::Faint, "drift ignored", place(key, field))
        }
        Fact::DriftProposed(DriftProposed { divergence, key, field, expires_at }) => {
            let (place, until) = (place(key, field), moment(*expires_at));
            let detail = format!("{place}; approve with `trueup approve {divergence}` by {until}");
            (Paint::Busy, "adoption proposed", detail)
        }
        Fact::DriftAdopted(DriftAdopted { key, field, parameter, undo, principal, .. }) => {
            let (place, by, subject) = (place(key, field), by(principal), &event.subject);
            let undo = format!("undo with `trueup rollback {subject} --to {undo}`");
            (Paint::Strong, "drift adopted", format!("{place} as `{parameter}`{by}; {undo}"))
        }
        Fact::DriftRejected(DriftRejected { key, field, principal, .. }) => {
            (Paint::Strong, "adoption rejected", format!("{}{}", place(key, field), by(principal)))
        }
        Fact::DriftEnded(DriftEnded { key, field, class }) => {
            (Paint::Good, "drift ended", format!("{}, {class}", place(key, field)))
        }
        Fact::ConflictRaised(ConflictRaised { conflict, key, field, by }) => {
            let with = by.as_ref().map(|by| format!(", with {by}")).unwrap_or_default();
            let settle = format!("settle with `trueup conflicts settle {conflict} DECISION`");
            (Paint::Bad, "conflict raised", format!("{}{with}; {settle}", place(key, field)))
        }
        Fact::ConflictSettled(settled) => conflict_settled(settled),
        Fact::AbsenceVerified(AbsenceVerified { keys }) => {
            (Paint::Good, "absence verified", format!("{} verified absent", count(*keys, "object")))
        }
        Fact::ServiceDeleteForced(ServiceDeleteForced { principal, reason, unproven })
        | Fact::ProjectDeleteForced(ProjectDeleteForced { principal, reason, unproven }) => {
            let left = count(*unproven, "object");
            let detail = format!("{left} not proven absent: {reason}{}", by(principal));
            (Paint::Bad, "deletion forced", detail)
        }
        Fact::WakeRequeued(WakeRequeued { principal }) => {
            (Paint::Busy, "requeued", requested(principal))
        }
        Fact::ReconcileRequested(ReconcileRequested { principal }) => {
            (Paint::Busy, "reconcile requested", requested(principal))
        }
        Fact::ReconcileChecked(ReconcileChecked { outcome }) => {
            (Paint::Good, "reconciled", outcome.clone())
        }
        Fact::ServiceFrozen(ServiceFrozen { reason, principal }) => {
            (Paint::Strong, "frozen", format!("{reason}{}", by(principal)))
        }
        Fact::ServiceUnfrozen(ServiceUnfrozen { principal }) => {
            (Paint::Strong, "unfrozen", requested(principal))
        }
        Fact::ServiceScheduledOff(ServiceScheduledOff { until }) => {
            (Paint::Faint, "hours ended", turned("paused", "resumes", *until))
        }
        Fact::ServiceScheduledOn(ServiceScheduledOn { until }) => {
            (Paint::Good, "hours began", turned("resumed", "pauses", *until))
        }
        Fact::ServiceScheduleRefused(ServiceScheduleRefused { why }) => {
            (Paint::Bad, "not resumed", format!("its active hours began, but {why}"))
        }
        Fact::PlatformFrozen(PlatformFrozen { cluster, reason, principal }) => {
            (Paint::Strong, "frozen", format!("{}{reason}{}", within(cluster), by(principal)))
        }
        Fact::PlatformUnfrozen(PlatformUnfrozen { cluster, principal }) => {
            (Paint::Strong, "unfrozen", format!("{}{}", within(cluster), requested(principal)))
        }
        Fact::FindingOpened(FindingOpened { key, class, .. }) => {
            (Paint::Busy, "found", format!("{}, {class}: no record of it", short(key)))
        }
        Fact::FindingClosed(FindingClosed { key, why }) => {
            (Paint::Good, "finding closed", format!("{}: {why}", short(key)))
        }
        Fact::FindingRemovalRequested(FindingRemovalRequested { key, principal }) => {
            (Paint::Strong, "removal requested", format!("{}{}", short(key), by(principal)))
        }
        Fact::FindingKept(FindingKept { key, why }) => {
            (Paint::Bad, "not removed", format!("{}: {why}", short(key)))
        }
        Fact::OrgCreated(OrgCreated { name, principal }) => {
            (Paint::Strong, "org created", format!("{name}{}", by(principal)))
        }
        Fact::OrgDeleteQueued(OrgDeleteQueued { projects, services, principal }) => {
            let (projects, services) = (count(*projects, "project"), count(*services, "service"));
            (
                Paint::Strong,
                "org deletion",
                format!("accepted with {projects} and {services}{}", by(principal)),
            )
        }
        Fact::SignedIn(SignedIn { principal, .. }) => {
            (Paint::Plain, "signed in", principal.clone())
        }
        Fact::SignedOut(SignedOut { principal, .. }) => {
            (Paint::Plain, "signed out", principal.clone())
        }
        Fact::SignInRefused(SignInRefused { user }) => {
            let user = user.map_or_else(|| "unknown address".to_owned(), |user| user.to_string());
            (Paint::Busy, "sign-in refused", user)
        }
        Fact::MemberAdded(MemberAdded { user, role, .. }) => {
            (Paint::Strong, "member added", format!("{user} as {role}"))
        }
        Fact::MemberRoleChanged(MemberRoleChanged { user, from, to, principal }) => {
            let detail = format!("{user} from {from} to {to}{}", by(principal));
            (Paint::Strong, "role changed", detail)
        }
        Fact::ProjectRoleGranted(ProjectRoleGranted { user, project, role, principal }) => {
            let detail = format!("{user} is {role} in {project}{}", by(principal));
            (Paint::Strong, "project role given", detail)
        }
        Fact::ProjectRoleRevoked(ProjectRoleRevoked { user, project, role, principal }) => {
            let detail = format!("{user} was {role} in {project}{}", by(principal));
            (Paint::Strong, "project role taken", detail)
        }
        Fact::MemberRemoved(MemberRemoved { user, principal }) => {
            (Paint::Strong, "member removed", format!("{user}{}", by(principal)))
        }
        Fact::InvitationCreated(InvitationCreated { invitation, role, principal }) => {
            (Paint::Busy, "invited", format!("{invitation} as {role}{}", by(principal)))
        }
        Fact::InvitationRevoked(InvitationRevoked { invitation, principal }) => {
            (Paint::Busy, "invitation revoked", format!("{invitation}{}", by(principal)))
        }
        Fact::ProviderChanged(_)
        | Fact::ProviderDeleted(_)
        | Fact::ProviderCheckRequested(_)
        | Fact::ProviderDomainVerified(_)
        | Fact::ProviderUnavailable(_)
        | Fact::ProviderAnswers(_)
        | Fact::ProviderSignInRefused(_)
        | Fact::IdentityLinked(_)
        | Fact::IdentityEnded(_) => {
            provider::sentence(fact).unwrap_or_else(|| (Paint::Plain, fact.name(), String::new()))
        }
        Fact::TokenCreated(TokenCreated { token, name, role, principal }) => {
            let token = name.clone().unwrap_or_else(|| token.to_string());
            (Paint::Busy, "token created", format!("{role} {token}{}", by(principal)))
        }
        Fact::TokenRevoked(TokenRevoked { token, name, principal }) => {
            let token = name.clone().unwrap_or_else(|| token.to_string());
            (Paint::Busy, "token revoked", format!("{token}{}", by(principal)))
        }
        Fact::PlanChanged(PlanChanged { plan, retired, principal, price }) => {
            let what = if *retired { "plan retired" } else { "plan changed" };
            let price = price.as_ref().map(published).unwrap_or_default();
            (Paint::Busy, what, format!("{plan}{price}{}", by(principal)))
        }
        Fact::TemplatePublished(TemplatePublished { template, principal }) => {
            (Paint::Good, "template published", format!("{template}{}", by(principal)))
        }
        Fact::TemplateDeprecated(TemplateDeprecated { template, principal, .. }) => {
            (Paint::Busy, "template deprecated", format!("{template}{}", by(principal)))
        }
        Fact::RoutingChanged(RoutingChanged { cluster, principal, .. }) => {
            (Paint::Busy, "routing changed", format!("cluster {cluster}{}", by(principal)))
        }
        Fact::ClusterReplaced(ClusterReplaced { cluster, .. }) => {
            (Paint::Busy, "cluster replaced", format!("cluster {cluster} has a new identity"))
        }
        Fact::ClusterUnreachable(ClusterUnreachable { why, since }) => {
            (Paint::Bad, "cluster unreachable", format!("last heard at {}: {why}", moment(*since)))
        }
        Fact::ClusterReachable(ClusterReachable { after_s }) => {
            (Paint::Good, "cluster reachable", format!("after {after_s} seconds"))
        }
        Fact::QuotaChanged(QuotaChanged { principal, .. }) => {
            (Paint::Busy, "quota changed", requested(principal))
        }
        Fact::BillingAccountChanged(BillingAccountChanged {
            currency,
            time_zone,
            principal,
            ..
        }) => {
            let text = format!("{currency}, months in {time_zone}; {}", requested(principal));
            (Paint::Busy, "billing account changed", text)
        }
        Fact::BudgetChanged(BudgetChanged { limit_micros, at_limit, principal }) => {
            let text = match limit_micros {
                Some(_) => format!("at the limit: {at_limit}; {}", requested(principal)),
                None => format!("removed; {}", requested(principal)),
            };
            (Paint::Busy, "budget changed", text)
        }
        Fact::BudgetReached(BudgetReached { percent, spent_micros, limit_micros, currency }) => {
            let amount = |micros: i64| Money { micros, currency: *currency }.to_string();
            let text =
                format!("{percent} %: {} of {}", amount(*spent_micros), amount(*limit_micros));
            (Paint::Bad, "budget reached", text)
        }
        Fact::OfferPublished(OfferPublished { offer, version, retired, principal }) => {
            let what = if *retired { "offer retired" } else { "offer published" };
            (Paint::Strong, what, format!("{offer} version {version}; {}", requested(principal)))
        }
        Fact::SubscriptionChanged(SubscriptionChanged {
            offer, version, from, principal, ..
        }) => {
            let text = format!(
                "{offer} version {version} from {}; {}",
                moment(*from),
                requested(principal)
            );
            (Paint::Busy, "subscription changed", text)
        }
        Fact::BalanceExhausted(BalanceExhausted { balance_micros, currency, at_zero }) => {
            let left = Money { micros: *balance_micros, currency: *currency };
            (Paint::Bad, "no balance left", format!("{left}; at zero: {at_zero}"))
        }
        Fact::CreditGranted(CreditGranted { micros, currency, principal, .. }) => {
            let amount = Money { micros: *micros, currency: *currency };
            (Paint::Good, "credit granted", format!("{amount}; {}", requested(principal)))
        }
        Fact::InvoiceIssued(InvoiceIssued { number, due_micros, currency, principal, .. }) => {
            let due = Money { micros: *due_micros, currency: *currency };
            let text = format!("{number}, {due} to pay; {}", requested(principal));
            (Paint::Strong, "invoice issued", text)
        }
        Fact::InvoicePaid(InvoicePaid { number, principal, .. }) => {
            (Paint::Good, "invoice paid", format!("{number}; {}", requested(principal)))
        }
        Fact::InvoiceVoided(InvoiceVoided { number, principal, .. }) => {
            (Paint::Strong, "invoice voided", format!("{number}; {}", requested(principal)))
        }
        Fact::EndpointOpened(EndpointOpened { name, node_port, principal, .. }) => {
            (Paint::Strong, "endpoint opened", format!("{name}, port {node_port}{}", by(principal)))
        }
        Fact::EndpointClosed(EndpointClosed { name, node_port, principal }) => {
            (Paint::Strong, "endpoint closed", format!("{name}, port {node_port}{}", by(principal)))
        }
        Fact::DomainAdded(DomainAdded { host, principal }) => {
            (Paint::Strong, "domain added", format!("{host}{}", by(principal)))
        }
        Fact::DomainRemoved(DomainRemoved { host, principal }) => {
            (Paint::Strong, "domain removed", format!("{host}{}", by(principal)))
        }
        Fact::DomainVerified(DomainVerified { host, verified, principal }) => {
            let (paint, what) = if *verified {
                (Paint::Good, "domain verified")
            } else {
                (Paint::Busy, "domain no longer verified")
            };
            (paint, what, format!("{host}{}", by(principal)))
        }
        Fact::DomainCheckRequested(DomainCheckRequested { host, principal }) => {
            (Paint::Busy, "DNS check requested", format!("{host}{}", by(principal)))
        }
        Fact::DomainContested(DomainContested { host, claimant }) => {
            let detail = format!("{host} belongs to another org, but DNS names {claimant}");
            (Paint::Bad, "domain contested", detail)
        }
        Fact::VariableSet(VariableSet { name, version, principal }) => {
            (Paint::Strong, "variable set", entry(name, *version, principal))
        }
        Fact::VariableDeleted(VariableDeleted { name, version, principal }) => {
            (Paint::Strong, "variable deleted", entry(name, *version, principal))
        }
        Fact::SecretSet(SecretSet { name, version, principal }) => {
            (Paint::Strong, "secret set", entry(name, *version, principal))
        }
        Fact::SecretDeleted(SecretDeleted { name, version, principal }) => {
            (Paint::Strong, "secret deleted", entry(name, *version, principal))
        }
    }
}

/// What active hours did, and when they do the next thing.
fn turned(now: &str, next: &str, at: Option<Timestamp>) -> String {
    match at {
        Some(at) => format!("{now} by its active hours; it {next} at {}", moment(at)),
        None => format!("{now} by its active hours"),
    }
}

fn phase_change(
    phase: Phase,
    health: Health,
    message: Option<&str>,
) -> (Paint, &'static str, String) {
    let paint = match phase {
        Phase::Running | Phase::Completed => style::health(health),
        Phase::Accepted
        | Phase::Creating
        | Phase::Updating
        | Phase::Paused
        | Phase::Deleting
        | Phase::Blocked
        | Phase::Deleted => style::phase(phase),
    };
    let detail = match message {
        Some(message) => format!("{health}: {message}"),
        None => health.to_string(),
    };
    (paint, phase.into_str(), detail)
}

fn conflict_settled(settled: &ConflictSettled) -> (Paint, &'static str, String) {
    let ConflictSettled { key, field, decision, until, principal, .. } = settled;
    let until = until.map(|until| format!(" until {}", moment(until))).unwrap_or_default();
    let detail = format!("{}, {decision}{until}{}", place(key, field), by(principal));
    (Paint::Strong, "conflict settled", detail)
}

fn requested(principal: &str) -> String {
    format!("requested by {principal}")
}

fn by(principal: &str) -> String {
    format!(", requested by {principal}")
}

fn published(price: &PublishedPrice) -> String {
    let hourly = Money { micros: price.hourly_micros, currency: price.currency };
    format!(", {hourly} an hour from {}", moment(price.from))
}

fn within(cluster: &Option<String>) -> String {
    cluster.as_ref().map(|cluster| format!("cluster {cluster}, ")).unwrap_or_default()
}

fn entry(name: &str, version: i64, principal: &str) -> String {
    format!("{name}, version {version}{}", by(principal))
}

/// An object, and the field of it if there is one.
fn place(key: &ResourceKey, field: &str) -> String {
    if field.is_empty() { short(key) } else { format!("{}: {field}", short(key)) }
}

fn short(key: &ResourceKey) -> String {
    format!("{}/{}", key.kind, key.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line(kind: &str, data: &Value) -> String {
        let mut data = data.clone();
        data["type"] = kind.into();
        let event: CloudEvent = serde_json::from_value(json!({
            "specversion": "1.0", "id": "evt_1", "source": "/trueup/reconciler",
            "type": format!("dev.trueup.{kind}.v1"), "subject": "svc_1",
            "time": "2026-01-02T03:04:05Z", "datacontenttype": "application/json",
            "sequence": "7", "generation": 2, "orgid": "org_1", "hash": "0", "data": data,
        }))
        .unwrap();
        event_line(&event, Style::new(false))
    }

    #[test]
    fn events_have_one_line_each() {
        let key = json!({ "kind": "Deployment", "namespace": "shop", "name": "web-1" });
        for (kind, data, end) in [
            (
                "ServiceQueued",
                json!({"deletes": false, "principal": "owner"}),
                "accepted            generation 2, requested by owner",
            ),
            (
                "ServiceQueued",
                json!({"deletes": true, "principal": "owner", "plan": "plr_01h455vb4pex5vsknk084sn02q"}),
                "deletion accepted   generation 2, requested by owner, from preview \
                 pvr_01h455vb4pex5vsknk084sn02q",
            ),
            ("ResourceCreated", json!({ "key": key }), "created             Deployment/web-1"),
            (
                "ResourceModifiedExternally",
                json!({ "key": key, "field": "spec.replicas", "by": "kubectl-edit" }),
                "edited by others    Deployment/web-1: spec.replicas, by kubectl-edit",
            ),
            ("ReconcileStarted", json!({}), "started             generation 2"),
            (
                "PlanChanged",
                json!({"plan": "small", "retired": false, "principal": "op"}),
                "plan changed        small, requested by op",
            ),
            (
                "PlanChanged",
                json!({"plan": "small", "retired": false, "principal": "op", "price": {
                    "version": "prc_01h455vb4pex5vsknk084sn02q", "hourly_micros": 7000,
                    "disk_gib_hourly_micros": 130, "currency": "EUR",
                    "from": "2026-03-01T00:00:00Z"}}),
                "plan changed        small, 0.007 EUR an hour from 2026-03-01 00:00:00Z, requested \
                 by op",
            ),
            (
                "DriftReverted",
                json!({ "key": key, "field": "" }),
                "drift reverted      Deployment/web-1",
            ),
            (
                "ServicePhaseChanged",
                json!({"phase": "running", "health": "healthy", "message": null}),
                "running             healthy",
            ),
            (
                "ServicePhaseChanged",
                json!({"phase": "creating", "health": "progressing", "message": "no image"}),
                "creating            progressing: no image",
            ),
            (
                "ReconcileDeferred",
                json!({"why": "the cluster\u{1b} is unreachable"}),
                "deferred            the cluster  is unreachable",
            ),
            (
                "ClusterUnreachable",
                json!({"why": "connection refused", "since": "2026-01-02T03:03:30Z"}),
                "cluster unreachable  last heard at 2026-01-02 03:03:30Z: connection refused",
            ),
            ("ClusterReachable", json!({"after_s": 75}), "cluster reachable   after 75 seconds"),
            (
                "AbsenceVerified",
                json!({"keys": 6}),
                "absence verified    6 objects verified absent",
            ),
        ] {
            assert_eq!(line(kind, &data), format!("03:04:05Z  {end}"));
        }
    }

    #[test]
    fn events_of_drift_say_how_to_decide_and_how_to_undo() {
        let key = json!({ "kind": "Deployment", "namespace": "shop", "name": "web-1" });
        let about = |more: Value| {
            let mut data = json!({ "key": key, "field": "spec.replicas" });
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            data
        };
        let (divergence, conflict) =
            ("dvg_01h455vb4pex5vsknk084sn02q", "cft_01h455vb4pex5vsknk084sn02q");
        for (kind, data, end) in [
            (
                "DriftIgnored",
                about(json!({})),
                "drift ignored       Deployment/web-1: spec.replicas",
            ),
            (
                "DriftProposed",
                about(json!({ "divergence": divergence, "expires_at": "2026-01-03T03:04:05Z" })),
                "adoption proposed   Deployment/web-1: spec.replicas; approve with `trueup approve \
                 dvg_01h455vb4pex5vsknk084sn02q` by 2026-01-03 03:04:05Z",
            ),
            (
                "DriftAdopted",
                about(json!({
                    "divergence": divergence, "parameter": "replicas", "undo": 1, "principal": "ann"
                })),
                "drift adopted       Deployment/web-1: spec.replicas as `replicas`, requested by ann; \
                 undo with `trueup rollback svc_1 --to 1`",
            ),
            (
                "DriftRejected",
                about(json!({ "divergence": divergence, "principal": "ann" })),
                "adoption rejected   Deployment/web-1: spec.replicas, requested by ann",
            ),
            (
                "DriftEnded",
                about(json!({ "class": "edited" })),
                "drift ended         Deployment/web-1: spec.replicas, edited",
            ),
            (
                "ConflictRaised",
                about(json!({ "conflict": conflict, "by": "argocd" })),
                "conflict raised     Deployment/web-1: spec.replicas, with argocd; settle with \
                 `trueup conflicts settle cft_01h455vb4pex5vsknk084sn02q DECISION`",
            ),
            (
                "ConflictSettled",
                about(json!({
                    "conflict": conflict, "decision": "ours", "until": "2026-01-02T11:04:05Z",
                    "principal": "ann"
                })),
                "conflict settled    Deployment/web-1: spec.replicas, ours until 2026-01-02 \
                 11:04:05Z, requested by ann",
            ),
        ] {
            assert_eq!(line(kind, &data), format!("03:04:05Z  {end}"));
        }
    }

    #[test]
    fn events_of_people_and_former_events_have_one_line_each() {
        for (kind, data, end) in [
            (
                "ProjectDeleteQueued",
                json!({"principal": "owner", "services": 2}),
                "project deletion    accepted with 2 services, requested by owner",
            ),
            (
                "OrgDeleteQueued",
                json!({"principal": "owner", "projects": 1, "services": 2}),
                "org deletion        accepted with 1 project and 2 services, requested by owner",
            ),
            (
                "ServiceDeleteForced",
                json!({"principal": "owner", "reason": "the node burnt", "unproven": 2}),
                "deletion forced     2 objects not proven absent: the node burnt, requested by owner",
            ),
            (
                "ProjectForceQueued",
                json!({"principal": "owner", "reason": "node lost"}),
                "force requested     node lost, requested by owner",
            ),
            (
                "ProjectDeleteForced",
                json!({"principal": "owner", "reason": "node lost", "unproven": 1}),
                "deletion forced     1 object not proven absent: node lost, requested by owner",
            ),
            (
                "SecretSet",
                json!({"name": "KEY", "version": 2, "principal": "ann"}),
                "secret set          KEY, version 2, requested by ann",
            ),
            (
                "TokenCreated",
                json!({"token": "tok_01h455vb4pex5vsknk084sn02q", "name": "ci", "role": "viewer", "principal": "owner"}),
                "token created       viewer ci, requested by owner",
            ),
            (
                "TokenRevoked",
                json!({"token": "tok_01h455vb4pex5vsknk084sn02q", "principal": "owner"}),
                "token revoked       tok_01h455vb4pex5vsknk084sn02q, requested by owner",
            ),
            (
                "DomainLookAsked",
                json!({"host": "a.example.org", "principal": "owner"}),
                "DNS check requested  a.example.org, requested by owner",
            ),
            (
                "SomethingNew",
                json!({"a": 1}),
                "SomethingNew        {\"a\":1,\"type\":\"SomethingNew\"}",
            ),
        ] {
            assert_eq!(line(kind, &data), format!("03:04:05Z  {end}"));
        }
    }
}
