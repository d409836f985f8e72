//! Conversions between rows and model types, shared by every file that reads rows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::subject::Subject;
use uuid::Uuid;

use crate::Error;

/// A kind of subject that this version does not know, or that has no place here.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind `{0}`")]
struct UnknownKind(String);

/// The subject of a row.
pub(crate) fn subject(kind: &str, id: Uuid) -> Result<Subject, Error> {
    let unknown = || Error::corrupt("subject", UnknownKind(kind.to_owned()));
    Subject::of_kind(kind, id).ok_or_else(unknown)
}

/// The unit of a row.
pub(crate) fn unit(kind: &str, id: Uuid) -> Result<Unit, Error> {
    let unknown = || Error::corrupt("unit", UnknownKind(kind.to_owned()));
    subject(kind, id)?.unit().ok_or_else(unknown)
}

pub(crate) fn unit_uuid(unit: Unit) -> Uuid {
    Subject::from(unit).uuid()
}

/// Decodes a text column that holds an enum or another value with a serde text form.
pub(crate) fn read<T: DeserializeOwned>(what: &'static str, text: String) -> Result<T, Error> {
    serde_json::from_value(Value::String(text)).map_err(|source| Error::corrupt(what, source))
}

pub(crate) fn read_json<T: DeserializeOwned>(
    what: &'static str,
    json: Json<Value>,
) -> Result<T, Error> {
    serde_json::from_value(json.0).map_err(|source| Error::corrupt(what, source))
}

/// The time in a column.
pub(crate) fn time(row: &PgRow, column: &str) -> Result<Timestamp, Error> {
    Ok(row.try_get::<jiff_sqlx::Timestamp, _>(column)?.to_jiff())
}

/// The time in a column that may be null.
pub(crate) fn maybe_time(row: &PgRow, column: &str) -> Result<Option<Timestamp>, Error> {
    let time: Option<jiff_sqlx::Timestamp> = row.try_get(column)?;
    Ok(time.map(jiff_sqlx::Timestamp::to_jiff))
}

/// The key in the columns `kind`, `namespace` and `name`.
pub(crate) fn key(row: &PgRow) -> Result<ResourceKey, Error> {
    Ok(ResourceKey {
        kind: read("kind", row.try_get("kind")?)?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
    })
}

/// When the last watch event of each kind arrived. Kinds of a newer version are skipped.
pub(crate) fn freshness(watches: Json<Value>) -> Result<Freshness, Error> {
    let watched: BTreeMap<String, Timestamp> = read_json("watches", watches)?;
    let known = |(kind, at): (String, Timestamp)| Some((kind.parse().ok()?, at));
    Ok(Freshness { heard: watched.into_iter().filter_map(known).collect() })
}

pub(crate) fn json<T: Serialize>(value: &T) -> Json<Value> {
    Json(serde_json::to_value(value).expect("a model type should serialize to JSON"))
}
