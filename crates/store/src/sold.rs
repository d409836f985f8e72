//! What services are sold for, so that divergences and findings have a price.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::drift::Divergence;
use trueup_model::id::{ProjectId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::plan::Plan;
use trueup_model::spec::Spec;
use trueup_rules::drift::price;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::{read, read_json};
use crate::{Error, plan};

/// A service with its project, its spec and its plan.
pub(crate) struct Sold {
    pub(crate) project: ProjectId,
    spec: Spec,
    plan: Option<Plan>,
}

impl Sold {
    /// The price of a divergence per hour; none without a plan.
    pub(crate) fn hourly(&self, seen: &Divergence) -> Option<Money> {
        self.plan.as_ref().map(|plan| price::hourly(&self.spec, plan, seen))
    }

    /// The price per hour of an object of this kind that the service left behind; none without a
    /// plan.
    pub(crate) fn finding_hourly(&self, kind: Kind) -> Option<Money> {
        self.plan.as_ref().map(|plan| price::finding_hourly(kind, &self.spec, plan))
    }
}

type Columns = (Uuid, Uuid, Json<Value>, Option<Json<Value>>, Option<bool>);

/// These services, also deleted ones.
pub(crate) async fn load(
    tx: &mut Tx,
    services: &[ServiceId],
) -> Result<BTreeMap<ServiceId, Sold>, Error> {
    if services.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<Columns> = sqlx::query_as(
        "select s.id, s.project_id, s.spec, n.body, n.retired
         from services s left join plans n on n.name = s.plan_name where s.id = any($1)",
    )
    .bind(services.iter().map(|service| service.uuid()).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(id, project, spec, body, retired)| {
            let sold = Sold {
                project: ProjectId::from_uuid(project),
                spec: read_json("spec", spec)?,
                plan: body.zip(retired).map(plan::plan).transpose()?,
            };
            Ok((ServiceId::from_uuid(id), sold))
        })
        .collect()
}

/// A price in its two columns.
pub(crate) fn money(micros: Option<i64>, currency: Option<String>) -> Result<Option<Money>, Error> {
    let (Some(micros), Some(currency)) = (micros, currency) else { return Ok(None) };
    Ok(Some(Money { micros, currency: read("currency", currency)? }))
}
