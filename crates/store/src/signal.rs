//! Nudges, so that nobody waits for a poll: inside one process, and with a bell between all that share
//! a database. Polling stays the safety net.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// What was committed that another process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudge {
    /// A wake was recorded.
    Wake,
    /// Events were sealed and can be read.
    Seal,
    /// A cluster or the platform was frozen or let go.
    Freeze,
    /// Somebody asked for the proof of a domain to be looked for.
    Look,
}

impl Nudge {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Wake, Self::Seal, Self::Freeze, Self::Look];

    /// The word that travels.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Seal => "seal",
            Self::Freeze => "freeze",
            Self::Look => "look",
        }
    }
}

/// How often this process itself committed each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    wakes: u64,
    seals: u64,
    freezes: u64,
    looks: u64,
}

impl Counts {
    fn add(&mut self, nudge: Nudge) {
        let count = match nudge {
            Nudge::Wake => &mut self.wakes,
            Nudge::Seal => &mut self.seals,
            Nudge::Freeze => &mut self.freezes,
            Nudge::Look => &mut self.looks,
        };
        *count = count.wrapping_add(1);
    }

    /// What was committed since an earlier look.
    pub fn since(self, earlier: Self) -> impl Iterator<Item = Nudge> {
        Nudge::ALL.into_iter().filter(move |nudge| match nudge {
            Nudge::Wake => self.wakes != earlier.wakes,
            Nudge::Seal => self.seals != earlier.seals,
            Nudge::Freeze => self.freezes != earlier.freezes,
            Nudge::Look => self.looks != earlier.looks,
        })
    }
}

/// Who wants to know that something was committed.
#[derive(Debug, Clone)]
pub struct Signals {
    wakes: Arc<Notify>,
    events: Arc<Notify>,
    looks: Arc<Notify>,
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
            looks: Arc::default(),
            seals: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
            own: watch::Sender::new(Counts::default()),
        }
    }
}

impl Signals {
    /// A wake was recorded.
    pub fn wake(&self) {
        self.tell(Nudge::Wake);
    }

    /// An event was recorded and wants sealing.
    pub fn event(&self) {
        self.events.notify_one();
    }

    /// Events were sealed and can be read.
    pub fn sealed(&self) {
        self.tell(Nudge::Seal);
    }

    /// A cluster or the platform was frozen or let go.
    pub fn freeze(&self) {
        self.tell(Nudge::Freeze);
    }

    /// Somebody asked for the proof of a domain to be looked for.
    pub fn look(&self) {
        self.tell(Nudge::Look);
    }

    /// This process committed something: everybody shall hear of it.
    fn tell(&self, nudge: Nudge) {
        self.own.send_modify(|own| own.add(nudge));
        self.hear(nudge);
    }

    /// Somebody committed something: whoever waits for it in this process hears of it.
    pub fn hear(&self, nudge: Nudge) {
        match nudge {
            Nudge::Wake => self.wakes.notify_one(),
            Nudge::Seal => self.seals.send_modify(|count| *count = count.wrapping_add(1)),
            Nudge::Freeze => self.freezes.send_modify(|count| *count = count.wrapping_add(1)),
            Nudge::Look => self.looks.notify_one(),
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
    pub async fn look_asked(&self) {
        self.looks.notified().await;
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
