//! Signals between tasks of one process, so that they need not wait for the next poll.
//!
//! [`super::notify`] carries them to other processes. Polling is the fallback.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// A kind of commit that another process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// A wake was recorded.
    Wake,
    /// Events were sealed and can be read.
    Seal,
    /// A cluster or the platform was frozen or unfrozen.
    Freeze,
    /// A DNS check of a domain was requested.
    DomainCheck,
    /// A check of an identity provider was requested.
    ProviderCheck,
}

impl Notification {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Wake, Self::Seal, Self::Freeze, Self::DomainCheck, Self::ProviderCheck];

    /// The name in the NOTIFY payload.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Seal => "seal",
            Self::Freeze => "freeze",
            Self::DomainCheck => "domain_check",
            Self::ProviderCheck => "provider_check",
        }
    }
}

/// How many commits of each kind this process made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    wakes: u64,
    seals: u64,
    freezes: u64,
    domain_checks: u64,
    provider_checks: u64,
}

impl Counts {
    fn add(&mut self, notification: Notification) {
        let count = match notification {
            Notification::Wake => &mut self.wakes,
            Notification::Seal => &mut self.seals,
            Notification::Freeze => &mut self.freezes,
            Notification::DomainCheck => &mut self.domain_checks,
            Notification::ProviderCheck => &mut self.provider_checks,
        };
        *count = count.wrapping_add(1);
    }

    /// The kinds that were committed since an earlier count.
    pub fn since(self, earlier: Self) -> impl Iterator<Item = Notification> {
        Notification::ALL.into_iter().filter(move |notification| match notification {
            Notification::Wake => self.wakes != earlier.wakes,
            Notification::Seal => self.seals != earlier.seals,
            Notification::Freeze => self.freezes != earlier.freezes,
            Notification::DomainCheck => self.domain_checks != earlier.domain_checks,
            Notification::ProviderCheck => self.provider_checks != earlier.provider_checks,
        })
    }
}

/// Wakes tasks of this process when something was committed.
#[derive(Debug, Clone)]
pub struct Signals {
    wakes: Arc<Notify>,
    events: Arc<Notify>,
    domain_checks: Arc<Notify>,
    provider_checks: Arc<Notify>,
    seals: watch::Sender<u64>,
    freezes: watch::Sender<u64>,
    /// Commits of this process: only these are sent to other processes.
    own: watch::Sender<Counts>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            wakes: Arc::default(),
            events: Arc::default(),
            domain_checks: Arc::default(),
            provider_checks: Arc::default(),
            seals: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
            own: watch::Sender::new(Counts::default()),
        }
    }
}

impl Signals {
    /// A wake was recorded.
    pub fn wake(&self) {
        self.publish(Notification::Wake);
    }

    /// An event was recorded and can be sealed.
    pub fn event(&self) {
        self.events.notify_one();
    }

    /// Events were sealed and can be read.
    pub fn sealed(&self) {
        self.publish(Notification::Seal);
    }

    /// A cluster or the platform was frozen or unfrozen.
    pub fn freeze(&self) {
        self.publish(Notification::Freeze);
    }

    /// A DNS check of a domain was requested.
    pub fn domain_check(&self) {
        self.publish(Notification::DomainCheck);
    }

    /// A check of an identity provider was requested.
    pub fn provider_check(&self) {
        self.publish(Notification::ProviderCheck);
    }

    /// Signals a commit of this process, to this and to other processes.
    fn publish(&self, notification: Notification) {
        self.own.send_modify(|own| own.add(notification));
        self.hear(notification);
    }

    /// Signals a commit, by any process, to the tasks of this process.
    pub fn hear(&self, notification: Notification) {
        match notification {
            Notification::Wake => self.wakes.notify_one(),
            Notification::Seal => self.seals.send_modify(|count| *count = count.wrapping_add(1)),
            Notification::Freeze => {
                self.freezes.send_modify(|count| *count = count.wrapping_add(1))
            }
            Notification::DomainCheck => self.domain_checks.notify_one(),
            Notification::ProviderCheck => self.provider_checks.notify_one(),
        }
    }

    /// Changes whenever this process committed something that other processes may wait for.
    #[must_use]
    pub fn own(&self) -> watch::Receiver<Counts> {
        self.own.subscribe()
    }

    /// Changes whenever a cluster or the platform was frozen or unfrozen.
    #[must_use]
    pub fn freezes(&self) -> watch::Receiver<u64> {
        self.freezes.subscribe()
    }

    /// Completes once a wake was recorded since the last call.
    pub async fn woken(&self) {
        self.wakes.notified().await;
    }

    /// Completes once a DNS check was requested since the last call.
    pub async fn domain_check_requested(&self) {
        self.domain_checks.notified().await;
    }

    /// Completes once a check of an identity provider was requested since the last call.
    pub async fn provider_check_requested(&self) {
        self.provider_checks.notified().await;
    }

    /// Completes once an event was recorded since the last call.
    pub async fn recorded(&self) {
        self.events.notified().await;
    }

    /// Changes whenever events were sealed.
    #[must_use]
    pub fn seals(&self) -> watch::Receiver<u64> {
        self.seals.subscribe()
    }
}
