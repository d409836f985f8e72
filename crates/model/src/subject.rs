//! Subjects: what an event, a wake, a status or a receipt is about.
//!
//! A new noun becomes a subject with one line in the table below. What executors converge is a
//! [`Unit`]; every unit is a subject.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::id::{ClusterId, OrgId, ProjectId, ServiceId};
use crate::order::Unit;

/// A text that is not the id of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subject must be an id, such as svc_… or prj_…")]
pub struct UnknownSubject;

macro_rules! subjects {
    ($($(#[$doc:meta])* $name:ident($id:ident) = $kind:literal;)+) => {
        /// What something is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Subject {
            $($(#[$doc])* $name($id),)+
        }

        impl Subject {
            /// The text of its kind in the database.
            #[must_use]
            pub const fn kind(self) -> &'static str {
                match self {
                    $(Self::$name(_) => $kind,)+
                }
            }

            /// Its id, without the kind.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                match self {
                    $(Self::$name(id) => id.uuid(),)+
                }
            }

            /// The subject of this kind with this id; `None` if there is no such kind.
            #[must_use]
            pub fn of_kind(kind: &str, id: Uuid) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name($id::from_uuid(id))),)+
                    _ => None,
                }
            }
        }

        impl FromStr for Subject {
            type Err = UnknownSubject;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                None$(.or_else(|| text.parse().ok().map(Self::$name)))+.ok_or(UnknownSubject)
            }
        }

        impl fmt::Display for Subject {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(id) => id.fmt(f),)+
                }
            }
        }
    };
}

subjects! {
    /// An org.
    Org(OrgId) = "org";
    /// A project.
    Project(ProjectId) = "project";
    /// A service.
    Service(ServiceId) = "service";
    /// A cluster.
    Cluster(ClusterId) = "cluster";
}

impl Subject {
    /// The unit that executors converge, if it is one.
    #[must_use]
    pub const fn unit(self) -> Option<Unit> {
        match self {
            Self::Project(id) => Some(Unit::Project(id)),
            Self::Service(id) => Some(Unit::Service(id)),
            Self::Org(_) | Self::Cluster(_) => None,
        }
    }
}

impl From<Unit> for Subject {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Project(id) => Self::Project(id),
            Unit::Service(id) => Self::Service(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_id_give_the_subject_back_and_an_unknown_kind_gives_none() {
        let id = Uuid::from_u128(7);
        for kind in ["org", "project", "service", "cluster"] {
            let subject = Subject::of_kind(kind, id).unwrap();
            assert_eq!((subject.kind(), subject.uuid()), (kind, id));
        }
        assert_eq!(Subject::of_kind("machine", id), None);
    }

    #[test]
    fn every_unit_is_a_subject_of_the_same_text() {
        for unit in [
            Unit::Project(ProjectId::from_uuid(Uuid::from_u128(1))),
            Unit::Service(ServiceId::from_uuid(Uuid::from_u128(2))),
        ] {
            let subject = Subject::from(unit);
            assert_eq!((subject.unit(), subject.to_string()), (Some(unit), unit.to_string()));
            assert_eq!(subject.kind(), unit.kind());
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
    }
}
