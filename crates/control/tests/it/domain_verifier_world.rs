//! What the tests of the prover work with: a service, domains, a DNS of their own, and a clock that stands
//! still unless it is moved.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use trueup_control::dns::Indeterminate;
use trueup_control::{DomainVerifier, Metrics};
use trueup_model::domain::{Domain, Host, Tls};
use trueup_model::{Clock, OrgId};
use trueup_store::door::{Accepted, DomainRequest, Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, EventQuery, SealedEvent};
use trueup_testkit::manual_clock::ManualClock;

use crate::dns::FakeNames;
use crate::rig::{LONG, Rig};

pub(crate) const HOST: &str = "www.example.org";
/// How often a test looks whether what it waits for has come, in real time.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// A service, a clock that stands still, and a DNS of our own.
pub(crate) struct World {
    pub(crate) rig: Rig,
    pub(crate) clock: ManualClock,
    pub(crate) names: FakeNames,
    /// What the loop that was started last counts.
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
        let prover = DomainVerifier {
            worker: self.rig.db.worker.clone(),
            app,
            signals: self.rig.signals.clone(),
            clock: Arc::clone(&self.rig.clock),
            metrics: Metrics::register(&mut self.registry),
            names: Arc::new(self.names.clone()),
        };
        self.tasks.spawn(prover.run());
    }

    pub(crate) async fn add(&self, org: OrgId, text: &str) -> Domain {
        let (owner, host) = (self.rig.db.owner(), host(text));
        let context = RequestContext::new(&owner, None);
        let now = self.clock.now();
        let added = self.rig.db.app.add_domain(org, &wanted(&host), Tls::Auto, &context, now).await;
        self.rig.signals.domain_check();
        added.expect("a domain should be added").row
    }

    pub(crate) async fn look(&self) -> Result<Accepted<Domain>, Refusal> {
        let (owner, host) = (self.rig.db.owner(), host(HOST));
        let context = RequestContext::new(&owner, None);
        let now = self.clock.now();
        self.rig.db.app.request_domain_check(self.rig.db.org, &wanted(&host), &context, now).await
    }

    pub(crate) async fn say(&self, verified: bool) {
        let (owner, host) = (self.rig.db.owner(), host(HOST));
        let context = RequestContext::new(&owner, None);
        let (org, now) = (self.rig.db.org, self.clock.now());
        let said =
            self.rig.db.app.verify_domain(org, &wanted(&host), verified, &context, now).await;
        assert!(said.expect("an operator should be heard").changed);
    }

    pub(crate) async fn domains(&self, org: OrgId) -> Vec<Domain> {
        let listed = self.rig.db.app.list_domains(org, "shop").await;
        listed.expect("domains should be listed").expect("the project should be there")
    }

    pub(crate) async fn domain(&self) -> Domain {
        self.domains(self.rig.db.org).await.remove(0)
    }

    /// Waits until the domain is so. Nudges only make the loop look what is due; time stands still.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Domain) -> bool) -> Domain {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let domain = self.domain().await;
                if is_so(&domain) {
                    return domain;
                }
                self.rig.signals.domain_check();
                tokio::time::sleep(LOOK).await;
            }
        });
        if let Ok(domain) = reached.await {
            return domain;
        }
        let domain = self.domain().await;
        assert!(is_so(&domain), "{what} did not come: {domain:#?}");
        domain
    }

    /// Waits until the loop rests for so long: it has found nothing to do at the time that it is now.
    pub(crate) async fn until_it_rests(&self, pause: Duration) {
        self.clock.until_sleeping_until(self.clock.monotonic() + pause).await;
    }

    /// Moves the clock from look to look until a host is proved. One look is mostly enough; one that the
    /// database fails, as it may on a very busy machine, is made up for by the next.
    pub(crate) async fn until_proved(&self, text: &str) {
        let proved = tokio::time::timeout(LONG, async {
            loop {
                let domains = self.domains(self.rig.db.org).await;
                let domain = domains.into_iter().find(|one| one.host.as_str() == text);
                let search = domain.filter(|one| one.verified_at.is_none()).map(|one| one.search);
                let Some(search) = search else { return };
                let next =
                    search.next_at.expect("a look should be due").duration_since(self.clock.now());
                // Only while the loop rests until then, and no look is under way.
                let left = Duration::try_from(next).unwrap_or_default();
                if self.clock.deadlines() == [self.clock.monotonic() + left] {
                    self.clock.advance(left);
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        assert!(proved.await.is_ok(), "{text} should be proved: {:#?}", self.domain().await);
    }

    /// Waits until so many questions were asked.
    pub(crate) async fn until_asked(&self, count: usize) {
        let reached = tokio::time::timeout(LONG, async {
            while self.names.asked().len() < count {
                self.rig.signals.domain_check();
                tokio::time::sleep(LOOK).await;
            }
        });
        assert!(reached.await.is_ok(), "{count} questions: {:?}", self.names.asked());
    }

    /// Waits until so many of our hosts were looked for and no server answered.
    pub(crate) async fn until_silent(&self, count: usize) {
        let silent = Indeterminate::Silent.to_string();
        let is_silent = |one: &Domain| one.search.last.as_ref().is_some_and(|it| it.why == silent);
        let reached = tokio::time::timeout(LONG, async {
            while self.domains(self.rig.db.org).await.iter().filter(|one| is_silent(one)).count()
                < count
            {
                self.rig.signals.domain_check();
                tokio::time::sleep(LOOK).await;
            }
        });
        assert!(
            reached.await.is_ok(),
            "{count} silent ones: {:#?}",
            self.domains(self.rig.db.org).await
        );
    }

    /// Waits until so many looks ended so.
    pub(crate) async fn until_ended(&self, outcome: &str, count: usize) {
        let wanted = format!("trueup_domain_checks_total{{outcome=\"{outcome}\"}} {count}\n");
        let told = || {
            let mut text = String::new();
            encode(&mut text, &self.registry).expect("the metrics should be written down");
            text
        };
        let reached = tokio::time::timeout(LONG, async {
            while !told().contains(&wanted) {
                tokio::time::sleep(LOOK).await;
            }
        });
        assert!(reached.await.is_ok(), "{wanted}: {}", told());
    }

    /// Moves the clock to when the next look is due, and waits until that saw something.
    pub(crate) async fn next_dns_check(&self) -> Domain {
        let due = self.domain().await.search.next_at.expect("a look should be due");
        let until = due.duration_since(self.clock.now());
        self.clock.advance(Duration::try_from(until).unwrap_or_default());
        let now = self.clock.now();
        self.until("a look", |domain| {
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
    pub(crate) async fn others(&self) -> OrgId {
        let db = &self.rig.db;
        let now = self.clock.now();
        let theirs = db.setup.ensure_org("other", now).await.expect("an org should be made");
        let owner = db.owner();
        let context = RequestContext::new(&owner, None);
        let project = "shop".parse().expect("this should be a name");
        db.app.accept_project(theirs, &project, &context, now).await.expect("a project should be");
        let web = db.app.find_service(db.org, "shop", "web").await.expect("should be read");
        let web = web.expect("our service should be there").row.service;
        let ask = trueup_rules::admit::AdmissionRequest {
            template: web.template.clone(),
            plan: None,
            parameters: web.parameters.clone(),
        };
        let wanted = ServiceRequest::declare("shop", &web.name, &ask);
        db.app.accept_service(theirs, &wanted, &context, now).await.expect("a service should be");
        theirs
    }
}

pub(crate) fn host(text: &str) -> Host {
    text.parse().expect("a test's host should be one")
}

pub(crate) fn wanted(host: &Host) -> DomainRequest<'_> {
    DomainRequest { project: "shop", service: "web", host, if_generation: None }
}
