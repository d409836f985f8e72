//! Volumes: recorded claims, joined with their spec and their last observation.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::spec::Spec;
use trueup_model::status::Inputs;
use trueup_model::volume::Volume;

use crate::db::row::read_json;
use crate::{App, Error, project};

impl App {
    /// The claims of a project's services whose deletion is not verified, in service and claim
    /// order; `None` if there is no such project.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_volumes(
        &self,
        org: OrgId,
        project: &str,
    ) -> Result<Option<Vec<Volume>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = project::find(&mut tx, project).await? else {
            return Ok(None);
        };
        let rows = sqlx::query(
            "select r.name, r.namespace, r.uid, s.id, s.name as service_name, s.spec, t.inputs
             from resources r
             join services s on s.id = r.subject_id
             join statuses t on t.subject_kind = 'service' and t.subject_id = s.id
             where r.subject_kind = 'service' and r.kind = $2 and s.project_id = $1
               and s.deleted_at is null
             order by s.name, r.name",
        )
        .bind(found.project.id.uuid())
        .bind(Kind::PersistentVolumeClaim.as_str())
        .fetch_all(&mut *tx)
        .await?;
        rows.iter().map(volume).collect::<Result<_, _>>().map(Some)
    }
}

fn volume(row: &PgRow) -> Result<Volume, Error> {
    let name: String = row.try_get("name")?;
    let spec: Spec = read_json("spec", row.try_get("spec")?)?;
    let inputs: Option<Json<Value>> = row.try_get("inputs")?;
    let inputs: Option<Inputs> = inputs.map(|json| read_json("inputs", json)).transpose()?;
    let seen: BTreeMap<&str, Option<bool>> = inputs
        .iter()
        .flat_map(|inputs| &inputs.observation.objects)
        .filter(|seen| seen.key.kind == Kind::PersistentVolumeClaim)
        .map(|seen| (seen.key.name.as_str(), seen.bound))
        .collect();
    Ok(Volume {
        service: ServiceId::from_uuid(row.try_get("id")?),
        service_name: row.try_get("service_name")?,
        namespace: row.try_get("namespace")?,
        size_gib: spec.volume.as_ref().map(|volume| volume.size_gib),
        path: spec.volume.map(|volume| volume.path),
        bound: seen.get(name.as_str()).copied().flatten(),
        uid: row.try_get("uid")?,
        observed_at: inputs
            .as_ref()
            .map(|inputs| inputs.observation.as_of)
            .filter(|_| seen.contains_key(name.as_str())),
        name,
    })
}
