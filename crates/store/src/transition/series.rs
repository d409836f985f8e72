//! The head of each series: the last known state of a uid, and what an update adds to it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::id::{ClusterId, OrgId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::org::PLATFORM;
use trueup_model::transition::{Belongs, Level, ObjectSnapshot, ObjectUpdate, What};
use trueup_rules::status::transition::steps;
use uuid::Uuid;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read, read_json};

/// The last known state of the object with one uid.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) level: Level,
    pub(super) seen_at: Timestamp,
}

/// The org and service that an object belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) org: OrgId,
    pub(super) service: Option<ServiceId>,
}

/// Owners of objects, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Of pods, by the object name of their service.
    named: BTreeMap<(String, String), Owner>,
    /// Of claims, and of the volumes behind them.
    claims: BTreeMap<(String, String), Owner>,
}

/// A transition to be appended.
#[derive(Debug)]
pub(super) struct New {
    /// Its index in the batch.
    pub(super) place: usize,
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) what: What,
    pub(super) at: Option<Timestamp>,
    pub(super) seen_at: Timestamp,
    pub(super) after: Option<Timestamp>,
    pub(super) version: String,
}

/// A time in which a kind was not watched.
#[derive(Debug)]
pub(super) struct Gap {
    /// Its index in the batch.
    pub(super) place: usize,
    pub(super) kind: Kind,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Timestamp,
}

/// The result of a batch of updates.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) heads: BTreeMap<String, Head>,
    owners: Owners,
    /// Uids whose head must be written, or deleted if it has none any more.
    pub(super) changed: BTreeSet<String>,
    pub(super) transitions: Vec<New>,
    pub(super) gaps: Vec<Gap>,
}

impl Batch {
    pub(super) const fn new(heads: BTreeMap<String, Head>, owners: Owners) -> Self {
        Self { heads, owners, changed: BTreeSet::new(), transitions: Vec::new(), gaps: Vec::new() }
    }

    /// The number of rows so far.
    pub(super) fn len(&self) -> usize {
        self.transitions.len().saturating_add(self.gaps.len())
    }

    pub(super) fn add(&mut self, update: &ObjectUpdate, before: &Freshness) {
        match update {
            ObjectUpdate::Present { snapshot, seen_at } => self.present(snapshot, *seen_at),
            ObjectUpdate::Gone { uid, resource_version, seen_at } => {
                self.gone(uid, resource_version, *seen_at, None);
            }
            ObjectUpdate::Listed { kind, uids, resource_version, since, seen_at } => {
                // The first list of this observer closes the gap since the last observer.
                let from = since.or_else(|| before.heard.get(kind).copied());
                let place = self.len();
                self.gaps.push(Gap { place, kind: *kind, from, until: *seen_at });
                let vanished: Vec<(String, Timestamp)> = self
                    .heads
                    .iter()
                    .filter(|(uid, head)| head.kind == *kind && !uids.contains(*uid))
                    .map(|(uid, head)| (uid.clone(), head.seen_at))
                    .collect();
                for (uid, last_seen) in vanished {
                    let after = from.map_or(last_seen, |from| from.max(last_seen));
                    self.gone(&uid, resource_version, *seen_at, Some(after));
                }
            }
        }
    }

    fn present(&mut self, snapshot: &ObjectSnapshot, seen_at: Timestamp) {
        let known = self.heads.get(&snapshot.uid);
        let owner = known.map(|head| head.owner).or_else(|| self.owner(snapshot));
        // Foreign objects are not recorded.
        let Some(owner) = owner else { return };
        let steps = steps(known.map(|head| &head.level), &snapshot.level);
        if known.is_some_and(|head| head.level == snapshot.level) {
            return;
        }
        let first = self.len();
        self.transitions.extend(steps.into_iter().zip(first..).map(|(step, place)| New {
            place,
            owner,
            kind: snapshot.kind,
            uid: snapshot.uid.clone(),
            namespace: snapshot.namespace.clone(),
            name: snapshot.name.clone(),
            what: step.what,
            at: step.at,
            seen_at,
            after: None,
            version: snapshot.resource_version.clone(),
        }));
        let head = Head {
            owner,
            kind: snapshot.kind,
            namespace: snapshot.namespace.clone(),
            name: snapshot.name.clone(),
            level: snapshot.level.clone(),
            seen_at,
        };
        self.heads.insert(snapshot.uid.clone(), head);
        self.changed.insert(snapshot.uid.clone());
    }

    fn gone(&mut self, uid: &str, version: &str, seen_at: Timestamp, after: Option<Timestamp>) {
        let Some(head) = self.heads.remove(uid) else { return };
        self.changed.insert(uid.to_owned());
        self.transitions.push(New {
            place: self.len(),
            owner: head.owner,
            kind: head.kind,
            uid: uid.to_owned(),
            namespace: head.namespace,
            name: head.name,
            what: What::Gone,
            at: None,
            seen_at,
            after,
            version: version.to_owned(),
        });
    }

    /// The owner of an object; `None` if it is foreign.
    ///
    /// A pod with our label but without a service in its namespace belongs to the platform.
    fn owner(&self, snapshot: &ObjectSnapshot) -> Option<Owner> {
        let platform = Owner { org: PLATFORM, service: None };
        let found = |owners: &BTreeMap<(String, String), Owner>, namespace: &str, name: &str| {
            owners.get(&(namespace.to_owned(), name.to_owned())).copied()
        };
        match &snapshot.belongs {
            Belongs::Platform => Some(platform),
            Belongs::Named(name) => {
                Some(found(&self.owners.named, &snapshot.namespace, name).unwrap_or(platform))
            }
            Belongs::Claim { namespace, name } => found(&self.owners.claims, namespace, name),
            Belongs::Others => None,
        }
    }
}

/// The heads of all objects in a batch, and of all objects of the kinds that were listed.
pub(super) async fn heads(
    tx: &mut Tx,
    cluster: ClusterId,
    updates: &[ObjectUpdate],
) -> Result<BTreeMap<String, Head>, Error> {
    let mut uids: Vec<&str> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for update in updates {
        match update {
            ObjectUpdate::Present { snapshot, .. } => uids.push(&snapshot.uid),
            ObjectUpdate::Gone { uid, .. } => uids.push(uid),
            ObjectUpdate::Listed { kind, .. } => kinds.push(kind.as_str()),
        }
    }
    type Columns =
        (String, Uuid, Option<Uuid>, String, String, String, Json<Value>, jiff_sqlx::Timestamp);
    let rows: Vec<Columns> = sqlx::query_as(
        "select uid, org_id, service_id, kind, namespace, name, level, seen_at from transition_heads
         where cluster_id = $1 and (uid = any($2) or kind = any($3)) order by uid for update",
    )
    .bind(cluster.uuid())
    .bind(uids)
    .bind(kinds)
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(uid, org, service, kind, namespace, name, level, seen_at)| {
            let org = OrgId::from_uuid(org);
            let head = Head {
                owner: Owner { org, service: service.map(ServiceId::from_uuid) },
                kind: read("kind", kind)?,
                namespace,
                name,
                level: read_json("level", level)?,
                seen_at: seen_at.to_jiff(),
            };
            Ok((uid, head))
        })
        .collect()
}

/// The services that updated objects belong to.
///
/// Pods by the object name and namespace of their service; claims and the volumes behind them by
/// the key that was recorded before the claim was created.
pub(super) async fn owners(
    tx: &mut Tx,
    cluster: ClusterId,
    updates: &[ObjectUpdate],
) -> Result<Owners, Error> {
    let mut names: Vec<&str> = Vec::new();
    let mut claims: (Vec<&str>, Vec<&str>) = Default::default();
    for update in updates {
        let ObjectUpdate::Present { snapshot, .. } = update else { continue };
        match &snapshot.belongs {
            Belongs::Named(name) => names.push(name),
            Belongs::Claim { namespace, name } => {
                claims.0.push(namespace);
                claims.1.push(name);
            }
            Belongs::Platform | Belongs::Others => {}
        }
    }
    // A label alone is not enough: the pod must also be in the namespace of its service.
    let named: Vec<(String, String, Uuid, Uuid)> = sqlx::query_as(
        "select p.namespace, s.object_name, s.org_id, s.id
         from services s join projects p on p.id = s.project_id
         where s.cluster_id = $1 and s.object_name = any($2)",
    )
    .bind(cluster.uuid())
    .bind(names)
    .fetch_all(&mut **tx)
    .await?;
    let owner = |org, service| Owner {
        org: OrgId::from_uuid(org),
        service: Some(ServiceId::from_uuid(service)),
    };
    let claimed: Vec<(String, String, Uuid, Uuid)> = sqlx::query_as(
        "select r.namespace, r.name, r.org_id, r.subject_id from resources r
         join unnest($2::text[], $3::text[]) as n (namespace, name)
           on r.namespace = n.namespace and r.name = n.name
         where r.cluster_id = $1 and r.kind = 'PersistentVolumeClaim' and r.subject_kind = 'service'",
    )
    .bind(cluster.uuid())
    .bind(claims.0)
    .bind(claims.1)
    .fetch_all(&mut **tx)
    .await?;
    let by_name = |rows: Vec<(String, String, Uuid, Uuid)>| {
        let keyed = |(namespace, name, org, id)| ((namespace, name), owner(org, id));
        rows.into_iter().map(keyed).collect()
    };
    Ok(Owners { named: by_name(named), claims: by_name(claimed) })
}

/// Writes changed heads and deletes those of objects that are gone.
pub(super) async fn store(
    tx: &mut Tx,
    cluster: ClusterId,
    heads: &BTreeMap<String, Head>,
    changed: &BTreeSet<String>,
) -> Result<(), Error> {
    let (kept, gone): (Vec<&String>, Vec<&String>) =
        changed.iter().partition(|uid| heads.contains_key(*uid));
    if !gone.is_empty() {
        sqlx::query("delete from transition_heads where cluster_id = $1 and uid = any($2)")
            .bind(cluster.uuid())
            .bind(gone)
            .execute(&mut **tx)
            .await?;
    }
    if kept.is_empty() {
        return Ok(());
    }
    let stored: Vec<&Head> = kept.iter().filter_map(|uid| heads.get(*uid)).collect();
    sqlx::query(
        "insert into transition_heads (cluster_id, uid, org_id, service_id, kind, namespace, name, level, seen_at)
         select $1, n.* from unnest($2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[],
                                    $8::jsonb[], $9::timestamptz[]) as n
         on conflict (cluster_id, uid) do update set level = excluded.level, seen_at = excluded.seen_at",
    )
    .bind(cluster.uuid())
    .bind(&kept)
    .bind(stored.iter().map(|head| head.owner.org.uuid()).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| head.owner.service.map(ServiceId::uuid)).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| head.kind.as_str()).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| head.namespace.as_str()).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| head.name.as_str()).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| json(&head.level)).collect::<Vec<_>>())
    .bind(stored.iter().map(|head| sql(head.seen_at)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A transition as columns: its kind, its container, and the other fields as JSON.
pub(super) fn columns(what: &What) -> (String, Option<String>, Json<Value>) {
    let Json(mut detail) = json(what);
    let mut take = |name: &str| {
        let value = detail.as_object_mut().and_then(|fields| fields.remove(name));
        value.and_then(|value| value.as_str().map(str::to_owned))
    };
    let kind = take("is").unwrap_or_default();
    let container = what.container().and_then(|_| take("container"));
    (kind, container, Json(detail))
}

/// The inverse of [`columns`].
pub(super) fn whole(
    what: &str,
    container: Option<String>,
    detail: Option<Json<Value>>,
) -> Json<Value> {
    let mut whole = detail.map_or_else(|| serde_json::json!({}), |Json(detail)| detail);
    whole["is"] = what.into();
    if let Some(container) = container {
        whole["container"] = container.into();
    }
    Json(whole)
}
