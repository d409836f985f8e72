//! Nudges, so that nobody waits for a poll: inside one process, and with a bell between all that share
//! a database. Polling stays the safety net.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// What was committed that another process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// A wake was recorded.
    Wake,
    /// Events were sealed and can be read.
    Seal,
    /// A cluster or the platform was frozen or let go.
    Freeze,
    /// Somebody asked for the proof of a domain to be looked for.
    DomainCheck,
}

impl Notification {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Wake, Self::Seal, Self::Freeze, Self::DomainCheck];

    /// The word that travels.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Seal => "seal",
            Self::Freeze => "freeze",
            Self::DomainCheck => "domain_check",
        }
    }
}

/// How often this process itself committed each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    wakes: u64,
    seals: u64,
    freezes: u64,
    domain_checks: u64,
}

impl Counts {
    fn add(&mut self, notification: Notification) {
        let count = match notification {
            Notification::Wake => &mut self.wakes,
            Notification::Seal => &mut self.seals,
            Notification::Freeze => &mut self.freezes,
            Notification::DomainCheck => &mut self.domain_checks,
        };
        *count = count.wrapping_add(1);
    }

    /// What was committed since an earlier look.
    pub fn since(self, earlier: Self) -> impl Iterator<Item = Notification> {
        Notification::ALL.into_iter().filter(move |notification| match notification {
            Notification::Wake => self.wakes != earlier.wakes,
            Notification::Seal => self.seals != earlier.seals,
            Notification::Freeze => self.freezes != earlier.freezes,
            Notification::DomainCheck => self.domain_checks != earlier.domain_checks,
        })
    }
}

/// Who wants to know that something was committed.
#[derive(Debug, Clone)]
pub struct Signals {
    wakes: Arc<Notify>,
    events: Arc<Notify>,
    domain_checks: Arc<Notify>,
    seals: watch::Sender<u64>,
    freezes: watch::Sender<u64>,
    /// What this process did itself: others are told of that, and of nothing they said themselves.
    own: watch::Sender<Counts>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            wakes: Arc::default(),
            events: Arc::default(),
            domain_checks: Arc::default(),
            seals: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
            own: watch::Sender::new(Counts::default()),
        }
    }
}

impl Signals {
    /// A wake was recorded.
    pub fn wake(&self) {
        self.tell(Notification::Wake);
    }

    /// An event was recorded and wants sealing.
    pub fn event(&self) {
        self.events.notify_one();
    }

    /// Events were sealed and can be read.
    pub fn sealed(&self) {
        self.tell(Notification::Seal);
    }

    /// A cluster or the platform was frozen or let go.
    pub fn freeze(&self) {
        self.tell(Notification::Freeze);
    }

    /// Somebody asked for the proof of a domain to be looked for.
    pub fn domain_check(&self) {
        self.tell(Notification::DomainCheck);
    }

    /// This process committed something: everybody shall hear of it.
    fn tell(&self, notification: Notification) {
        self.own.send_modify(|own| own.add(notification));
        self.hear(notification);
    }

    /// Somebody committed something: whoever waits for it in this process hears of it.
    pub fn hear(&self, notification: Notification) {
        match notification {
            Notification::Wake => self.wakes.notify_one(),
            Notification::Seal => self.seals.send_modify(|count| *count = count.wrapping_add(1)),
            Notification::Freeze => {
                self.freezes.send_modify(|count| *count = count.wrapping_add(1))
            }
            Notification::DomainCheck => self.domain_checks.notify_one(),
        }
    }

    /// Changes whenever this process committed something that others may wait for.
    #[must_use]
    pub fn own(&self) -> watch::Receiver<Counts> {
        self.own.subscribe()
    }

    /// Changes whenever a cluster or the platform was frozen or let go.
    #[must_use]
    pub fn freezes(&self) -> watch::Receiver<u64> {
        self.freezes.subscribe()
    }

    /// Completes once a wake was recorded since the last call.
    pub async fn woken(&self) {
        self.wakes.notified().await;
    }

    /// Completes once a look was asked for since the last call.
    pub async fn domain_check_requested(&self) {
        self.domain_checks.notified().await;
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
