//! Why a service is as it is: the chain from who asked to what was seen.

use jiff::Timestamp;

use crate::freeze::Freeze;
use crate::id::{EventId, ReleaseId};
use crate::key::{Kind, ResourceKey};
use crate::service::DesiredState;
use crate::status::{Inputs, Status};

/// What is stored about one service that an answer is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What is promised about its existence.
    pub desired: DesiredState,
    /// The promise's number.
    pub generation: i64,
    /// What its cluster is called.
    pub cluster: String,
    /// Who asked for it.
    pub asked: Asked,
    /// What still wants it looked at.
    pub wake: Option<WakeSeen>,
    /// What the event log says of this generation, oldest first.
    pub events: Vec<EventSeen>,
    /// Every key ever recorded for it, with the uid last seen.
    pub objects: Vec<(ResourceKey, Option<String>)>,
    /// What was projected last.
    pub status: Status,
    /// What that was projected from.
    pub inputs: Option<Inputs>,
    /// The kinds of its evidence that have not been heard for too long.
    pub silent: Vec<Kind>,
    /// The widest freeze that is in force on it now, whatever the last look was held up by.
    pub freeze: Option<Freeze>,
}

/// Who asked for a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The release that recorded it.
    pub release: ReleaseId,
    /// What was asked.
    pub action: String,
    /// By whom.
    pub principal: String,
    /// When it was accepted.
    pub at: Timestamp,
}

/// A wake that waits or is worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeSeen {
    /// `queued`, `running` or `dead`.
    pub state: String,
    /// When it may be worked on.
    pub due_at: Timestamp,
    /// How often it was tried.
    pub attempts: i32,
    /// What went wrong last.
    pub error: Option<String>,
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSeen {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub kind: String,
    /// When.
    pub at: Timestamp,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// In one sentence.
    pub answer: String,
    /// The chain, from the ask to what is waited for.
    pub links: Vec<Link>,
    /// What would unblock it; nothing where nothing has to.
    pub unblock: Option<String>,
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Which.
    pub step: LinkStep,
    /// What is known.
    pub text: String,
    /// Since when, or when.
    pub at: Option<Timestamp>,
    /// What proves it: ids, uids with their versions.
    pub proof: Vec<String>,
}

/// The links there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkStep {
    /// Somebody asked.
    Asked,
    /// The loop was told.
    Ordered,
    /// Somebody forbade every act.
    Frozen,
    /// Objects were made.
    Applied,
    /// Reality was looked at.
    Observed,
    /// Something is waited for.
    Waiting,
}
