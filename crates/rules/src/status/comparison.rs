//! A service field by field: what is desired, what was applied last, and what was observed.
//!
//! Trueup does not store live objects. A pass that had nothing to write proves that every field has the
//! applied value, except in the divergences that it found. Without such proof a field is unknown.

use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceRecord};
use trueup_model::key::Kind;
use trueup_model::observation::Observation;
use trueup_model::spec::Spec;

/// How the states of a field compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldState {
    /// The observed value is the desired one.
    Same,
    /// The desired value is not applied yet.
    Pending,
    /// Another writer changed it.
    Differs,
    /// There is no fresh evidence.
    Unknown,
}

/// One field of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldComparison<'a> {
    /// Its name in the spec, or its path in the object of the divergence.
    pub field: String,
    /// The desired value; null for none.
    pub desired: Value,
    /// The value in the newest generation that was completely applied; none before the first.
    pub applied: Option<Value>,
    /// The value that was last observed; none if it was not.
    pub observed: Option<Value>,
    /// How they compare.
    pub state: FieldState,
    /// The divergence of the field, if there is one.
    pub divergence: Option<&'a DivergenceRecord>,
}

/// What a service is compared by.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The desired spec.
    pub desired: &'a Spec,
    /// The spec of the newest generation that was completely applied.
    pub applied: Option<&'a Spec>,
    /// The last observation.
    pub observation: Option<&'a Observation>,
    /// Whether every watch that it depends on is fresh.
    pub is_fresh: bool,
    /// The open divergences.
    pub divergences: &'a [DivergenceRecord],
}

/// Compares a service field by field: the fields of its spec in name order, its ready pods, and then
/// divergences of other fields.
#[must_use]
pub fn compare<'a>(of: &Compared<'a>) -> Vec<FieldComparison<'a>> {
    let (desired, applied) = (fields(of.desired), of.applied.map(fields));
    let is_applied = of.observation.is_some_and(|observation| observation.applied);
    let gone = of.divergences.iter().find(|one| is_workload_gone(one));
    let mut rows: Vec<FieldComparison<'a>> = Vec::new();
    for (field, wanted) in &desired {
        let before = applied.as_ref().map(|applied| find(applied, field));
        let own = of.divergences.iter().find(|one| names(one) == Some(field.as_str()));
        let divergence = gone.or(own);
        let is_old = before.as_ref() != Some(wanted);
        let observed = match divergence {
            Some(divergence) => Some(divergence.divergence.live.clone()),
            // While a generation is being applied, a field has the old value or the new one.
            None => before.clone().filter(|_| is_applied || !is_old && of.observation.is_some()),
        };
        let state = match &observed {
            _ if !of.is_fresh => FieldState::Unknown,
            _ if divergence.is_some() => FieldState::Differs,
            _ if is_old => FieldState::Pending,
            Some(_) => FieldState::Same,
            None => FieldState::Unknown,
        };
        let (field, desired) = (field.clone(), wanted.clone());
        rows.push(FieldComparison { field, desired, applied: before, observed, state, divergence });
    }
    rows.extend(ready_pods(of));
    let others = of
        .divergences
        .iter()
        .filter(|one| names(one).is_none_or(|name| desired.iter().all(|(field, _)| field != name)));
    rows.extend(others.map(|record| FieldComparison {
        field: record.divergence.field.clone(),
        desired: record.divergence.wanted.clone(),
        applied: Some(record.divergence.wanted.clone()),
        observed: Some(record.divergence.live.clone()),
        state: if of.is_fresh { FieldState::Differs } else { FieldState::Unknown },
        divergence: Some(record),
    }));
    rows
}

/// The pods that are to be ready, and those that are.
fn ready_pods<'a>(of: &Compared<'a>) -> Option<FieldComparison<'a>> {
    let workload = of.observation?.workload.as_ref()?;
    let state = match (of.is_fresh, workload.ready == workload.wanted) {
        (false, _) => FieldState::Unknown,
        (true, true) => FieldState::Same,
        (true, false) => FieldState::Pending,
    };
    Some(FieldComparison {
        field: "ready_pods".to_owned(),
        desired: workload.wanted.into(),
        applied: None,
        observed: Some(workload.ready.into()),
        state,
        divergence: None,
    })
}

/// The fields of a spec in name order; of variables and resources each one.
fn fields(spec: &Spec) -> Vec<(String, Value)> {
    let Ok(Value::Object(all)) = serde_json::to_value(spec) else { return Vec::new() };
    let mut fields: Vec<(String, Value)> = Vec::new();
    for (name, value) in all {
        let is_split = name == "variables" || name == "resources";
        match value.as_object().filter(|_| is_split) {
            Some(parts) => {
                let part =
                    |(part, value): (&String, &Value)| (format!("{name}.{part}"), value.clone());
                fields.extend(parts.iter().map(part));
            }
            None => fields.push((name, value)),
        }
    }
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// The value of a field; null if it is not set.
fn find(fields: &[(String, Value)], name: &str) -> Value {
    let found = fields.iter().find(|(field, _)| field == name);
    found.map_or(Value::Null, |(_, value)| value.clone())
}

/// Whether the workload itself was deleted: then none of its fields has a value.
fn is_workload_gone(record: &DivergenceRecord) -> bool {
    let Divergence { key, class, .. } = &record.divergence;
    let kinds = [Kind::Deployment, Kind::StatefulSet, Kind::CronJob, Kind::Job];
    *class == DivergenceClass::Deleted && kinds.contains(&key.kind)
}

/// The field of the spec that sets the field of a divergence.
fn names(record: &DivergenceRecord) -> Option<&'static str> {
    match record.divergence.field.as_str() {
        "spec.replicas" => Some("replicas"),
        "spec.schedule" => Some("schedule"),
        "spec.template.spec.containers.main.image" => Some("image"),
        "spec.template.spec.containers.main.command" => Some("command"),
        "spec.template.spec.containers.main.args" => Some("args"),
        _ => None,
    }
}
