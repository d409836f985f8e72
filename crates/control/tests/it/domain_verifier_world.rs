//! The fixture for tests of the domain verifier: a service, domains, a fake DNS and a manual clock.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use trueup_control::dns::Indeterminate;
use trueup_control::{DomainVerifier, Metrics};
use trueup_model::domain::{Domain, Host, Tls};
use trueup_model::drift::DriftPolicy;
use trueup_model::{Clock, OrgId};
use trueup_store::door::{Accepted, DomainRequest, Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, EventQuery, SealedEvent};
use trueup_testkit::manual_clock::ManualClock;

use crate::dns::FakeNames;
use crate::rig::{LONG, Rig};

pub(crate) const HOST: &str = "www.example.org";
/// How often a test polls the condition it waits for, in real time.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// A service, a manual clock and a fake DNS.
pub(crate) struct World {
    pub(crate) rig: Rig,
    pub(crate) clock: ManualClock,
    pub(crate) names: FakeNames,
    /// The metrics of the loop that was started last.
    pub(crate) registry: Registry,
    pub(crate) tasks: JoinSet<()>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = ManualClock::new();
        let rig = Rig::on(Arc::new(clock.clone())).await;
        rig.declare_project().await;
        rig.declare("web", "web:1").await;
        let (names, registry) = (FakeNames::default(), Registry::default());
        Self { rig, clock, names, registry, tasks: JoinSet::new() }
    }

    /// Starts the loop of one process.
    pub(crate) fn start(&mut self) {
        self.start_with(self.rig.db.app.clone());
    }

    pub(crate) fn start_with(&mut self, app: App) {
        self.registry = Registry::default();
        let verifier = DomainVerifier {
            worker: self.rig.db.worker.clone(),
            app,
            signals: self.rig.signals.clone(),
            clock: Arc::clone(&self.rig.clock),
            metrics: Metrics::register(&mut self.registry),
            names: Arc::new(self.names.clone()),
        };
        self.tasks.spawn(verifier.run());
    }

    pub(crate) async fn add(&self, org: OrgId, text: &str) -> Domain {
        let (owner, host) = (self.rig.db.owner(), host(text));
        let context = RequestContext::new(&owner, None);
        let now = self.clock.now();
        let added = self.rig.db.app.add_domain(org, &wanted(&host), Tls::Auto, &context, now).await;
        self.rig.signals.domain_check();
        added.expect("a domain should be added").row
    }

    pub(crate) async fn request_check(&self) -> Result<Accepted<Domain>, Refusal> {
        let (owner, host) = (self.rig.db.owner(), host(HOST));
        let context = RequestContext::new(&owner, None);
        let now = self.clock.now();
        self.rig.db.app.request_domain_check(self.rig.db.org, &wanted(&host), &context, now).await
    }

    pub(crate) async fn set_verified(&self, verified: bool) {
        let (owner, host) = (self.rig.db.owner(), host(HOST));
        let context = RequestContext::new(&owner, None);
        let (org, now) = (self.rig.db.org, self.clock.now());
        let changed =
            self.rig.db.app.verify_domain(org, &wanted(&host), verified, &context, now).await;
        assert!(changed.expect("an operator should be able to verify").changed);
    }

    pub(crate) async fn domains(&self, org: OrgId) -> Vec<Domain> {
        let listed = self.rig.db.app.list_domains(org, "shop").await;
        listed.expect("domains should be listed").expect("the project should be there")
    }

    pub(crate) async fn domain(&self) -> Domain {
        self.domains(self.rig.db.org).await.remove(0)
    }

    /// Waits until the domain meets a condition. Signals make the loop check what is due; time does
    /// not advance.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Domain) -> bool) -> Domain {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let domain = self.domain().await;
                if is_so(&domain) {
                    return domain;
                }
                self.rig.signals.domain_check();
                tokio::time::sleep(POLL).await;
            }
        });
        if let Ok(domain) = reached.await {
            return domain;
        }
        let domain = self.domain().await;
        assert!(is_so(&domain), "{what} did not happen: {domain:#?}");
        domain
    }

    /// Waits until the loop sleeps for `pause` from now: nothing is due.
    pub(crate) async fn until_idle(&self, pause: Duration) {
        self.clock.until_sleeping_until(self.clock.monotonic() + pause).await;
    }

    /// Advances the clock from check to check until a host is verified. One check is usually
    /// enough; if the database fails, as it may on a very busy machine, the next check repeats it.
    pub(crate) async fn until_verified(&self, text: &str) {
        let verified = tokio::time::timeout(LONG, async {
            loop {
                let domains = self.domains(self.rig.db.org).await;
                let domain = domains.into_iter().find(|one| one.host.as_str() == text);
                let search = domain.filter(|one| one.verified_at.is_none()).map(|one| one.search);
                let Some(search) = search else { return };
                let next =
                    search.next_at.expect("a check should be due").duration_since(self.clock.now());
                // Only while the loop sleeps until then, and no check is in flight.
                let left = Duration::try_from(next).unwrap_or_default();
                if self.clock.deadlines() == [self.clock.monotonic() + left] {
                    self.clock.advance(left);
                }
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(verified.await.is_ok(), "{text} should be verified: {:#?}", self.domain().await);
    }

    /// Waits until this many queries were made.
    pub(crate) async fn until_asked(&self, count: usize) {
        let reached = tokio::time::timeout(LONG, async {
            while self.names.queries().len() < count {
                self.rig.signals.domain_check();
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "{count} queries: {:?}", self.names.queries());
    }

    /// Waits until the last check of this many domains timed out.
    pub(crate) async fn until_silent(&self, count: usize) {
        let silent = Indeterminate::Silent.to_string();
        let is_silent = |one: &Domain| one.search.last.as_ref().is_some_and(|it| it.why == silent);
        let reached = tokio::time::timeout(LONG, async {
            while self.domains(self.rig.db.org).await.iter().filter(|one| is_silent(one)).count()
                < count
            {
                self.rig.signals.domain_check();
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(
            reached.await.is_ok(),
            "{count} timeouts: {:#?}",
            self.domains(self.rig.db.org).await
        );
    }

    /// Waits until this many checks had this outcome.
    pub(crate) async fn until_ended(&self, outcome: &str, count: usize) {
        let wanted = format!("trueup_domain_checks_total{{outcome=\"{outcome}\"}} {count}\n");
        let metrics = || {
            let mut text = String::new();
            encode(&mut text, &self.registry).expect("metrics should be encoded");
            text
        };
        let reached = tokio::time::timeout(LONG, async {
            while !metrics().contains(&wanted) {
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "{wanted}: {}", metrics());
    }

    /// Advances the clock to the next due check, and waits until its result is recorded.
    pub(crate) async fn next_dns_check(&self) -> Domain {
        let due = self.domain().await.search.next_at.expect("a check should be due");
        let until = due.duration_since(self.clock.now());
        self.clock.advance(Duration::try_from(until).unwrap_or_default());
        let now = self.clock.now();
        self.until("a check", |domain| {
            domain.search.last.as_ref().is_some_and(|last| last.at == now)
        })
        .await
    }

    pub(crate) async fn events(&self, org: OrgId, kind: &str) -> Vec<SealedEvent> {
        self.rig.db.seal().await;
        let query =
            EventQuery { kind: Some(kind.to_owned()), limit: 1000, ..EventQuery::default() };
        self.rig.db.app.list_events(org, &query).await.expect("events should be read")
    }

    /// Another org with the same project and service.
    pub(crate) async fn other_org(&self) -> OrgId {
        let db = &self.rig.db;
        let now = self.clock.now();
        let theirs = db.setup.ensure_org("other", now).await.expect("an org should be made");
        let owner = db.owner();
        let context = RequestContext::new(&owner, None);
        let project = "shop".parse().expect("this should be a name");
        db.app
            .accept_project(theirs, &project, &DriftPolicy::default(), &context, now)
            .await
            .expect("a project should be");
        let web = db.app.find_service(db.org, "shop", "web").await.expect("should be read");
        let web = web.expect("our service should be there").row.service;
        let request = trueup_rules::admit::AdmissionRequest {
            template: web.template.clone(),
            plan: None,
            parameters: web.parameters.clone(),
            drift: DriftPolicy::default(),
            active: None,
        };
        let wanted = ServiceRequest::declare("shop", &web.name, &request);
        db.app.accept_service(theirs, &wanted, &context, now).await.expect("a service should be");
        theirs
    }
}

pub(crate) fn host(text: &str) -> Host {
    text.parse().expect("a test's host should be valid")
}

pub(crate) fn wanted(host: &Host) -> DomainRequest<'_> {
    DomainRequest { project: "shop", service: "web", host, if_generation: None }
}
