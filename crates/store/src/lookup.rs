//! Finding what an id refers to, so that a pasted id leads to its object.

use sqlx::{AssertSqlSafe, Row};
use trueup_model::id::{Id, Noun, OrgId, ServiceId, noun};
use uuid::Uuid;

use crate::{App, Error};

/// What can be found by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Findable {
    /// A project.
    Project,
    /// A service, also a deleted one.
    Service,
    /// A release.
    Release,
    /// A cluster.
    Cluster,
    /// A sealed event.
    Event,
    /// An endpoint.
    Endpoint,
    /// A domain.
    Domain,
    /// A divergence.
    Divergence,
    /// A conflict.
    Conflict,
}

/// Where an object is: the names around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What it is.
    pub what: Findable,
    /// The name of its project, if it is in one.
    pub project: Option<String>,
    /// The id of its service, if it belongs to one.
    pub service_id: Option<ServiceId>,
    /// The name of its service.
    pub service: Option<String>,
    /// Its own name: of an event its type, of a release its generation, of a divergence its field.
    pub name: String,
}

/// Reads an id with one prefix.
type Reader = fn(&str) -> Option<Uuid>;

impl Findable {
    /// What an id refers to, by its prefix. Another text becomes an id that no object has: the lookup
    /// is the same, so that its duration tells nothing.
    fn read(text: &str) -> (Self, Uuid) {
        fn id<N: Noun>(text: &str) -> Option<Uuid> {
            text.parse::<Id<N>>().ok().map(Id::uuid)
        }
        let readers: [(Self, Reader); 9] = [
            (Self::Project, id::<noun::Project>),
            (Self::Service, id::<noun::Service>),
            (Self::Release, id::<noun::Release>),
            (Self::Cluster, id::<noun::Cluster>),
            (Self::Event, id::<noun::Event>),
            (Self::Endpoint, id::<noun::Endpoint>),
            (Self::Domain, id::<noun::Domain>),
            (Self::Divergence, id::<noun::Divergence>),
            (Self::Conflict, id::<noun::Conflict>),
        ];
        let found = readers.into_iter().find_map(|(what, id)| Some((what, id(text)?)));
        found.unwrap_or((Self::Service, Uuid::nil()))
    }

    /// A statement that finds one by the id `$1`.
    const fn statement(self) -> &'static str {
        match self {
            Self::Project => {
                "select name as project, null::uuid as service_id, null::text as service, name
                 from projects where id = $1"
            }
            Self::Service => {
                "select p.name as project, s.id as service_id, s.name as service, s.name
                 from services s join projects p on p.id = s.project_id where s.id = $1"
            }
            Self::Release => {
                "select p.name as project, s.id as service_id, s.name as service, r.generation::text as name
                 from releases r join services s on s.id = r.service_id join projects p on p.id = s.project_id
                 where r.id = $1"
            }
            Self::Cluster => {
                "select null::text as project, null::uuid as service_id, null::text as service, name
                 from clusters where id = $1"
            }
            Self::Event => {
                "select coalesce(p.name, o.name) as project, s.id as service_id, s.name as service, e.type as name
                 from event_seals l join events e on e.id = l.event_id
                 left join services s on e.subject_kind = 'service' and s.id = e.subject_id
                 left join projects p on p.id = s.project_id
                 left join projects o on e.subject_kind = 'project' and o.id = e.subject_id
                 where l.org_id = trueup_org() and l.event_id = $1"
            }
            Self::Endpoint => {
                "select p.name as project, s.id as service_id, s.name as service, e.name
                 from endpoints e join services s on s.id = e.service_id join projects p on p.id = s.project_id
                 where e.id = $1"
            }
            Self::Domain => {
                "select p.name as project, s.id as service_id, s.name as service, d.host as name
                 from domains d join services s on s.id = d.service_id join projects p on p.id = s.project_id
                 where d.id = $1"
            }
            Self::Divergence => {
                "select p.name as project, s.id as service_id, s.name as service,
                        d.kind || '/' || d.name || ' ' || d.field as name
                 from divergences d join projects p on p.id = d.project_id
                 left join services s on d.subject_kind = 'service' and s.id = d.subject_id where d.id = $1"
            }
            Self::Conflict => {
                "select p.name as project, s.id as service_id, s.name as service,
                        c.kind || '/' || c.name || ' ' || c.field as name
                 from conflicts c join projects p on p.id = c.project_id
                 left join services s on c.subject_kind = 'service' and s.id = c.subject_id where c.id = $1"
            }
        }
    }
}

impl App {
    /// Where an object of the org, or a cluster, is; `None` if there is none with this id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn look_up(&self, org: OrgId, id: &str) -> Result<Option<Place>, Error> {
        let (what, id) = Findable::read(id);
        let mut tx = self.begin(org).await?;
        let statement = AssertSqlSafe(what.statement());
        let Some(row) = sqlx::query(statement).bind(id).fetch_optional(&mut *tx).await? else {
            return Ok(None);
        };
        let service: Option<Uuid> = row.try_get("service_id")?;
        Ok(Some(Place {
            what,
            project: row.try_get("project")?,
            service_id: service.map(ServiceId::from_uuid),
            service: row.try_get("service")?,
            name: row.try_get("name")?,
        }))
    }
}
