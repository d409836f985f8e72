//! The value that a parameter would need for its field to have the live value.

use serde_json::{Map, Value};
use trueup_model::drift::Divergence;
use trueup_model::template::{Parameter, ParameterKind};

/// The live value in the parameter's type; `None` if it has no such form.
///
/// A list or a map keeps its other entries. Bounds are not checked here.
pub(super) fn value(
    parameter: &Parameter,
    now: Option<&Value>,
    divergence: &Divergence,
) -> Option<Value> {
    let live = &divergence.live;
    match parameter.kind {
        ParameterKind::String => text(live),
        ParameterKind::Integer => integer(live).map(Value::from),
        ParameterKind::Boolean => {
            live.as_bool().or_else(|| live.as_str()?.parse().ok()).map(Value::Bool)
        }
        ParameterKind::List => list(now, &divergence.field, live),
        ParameterKind::Map => map(now, &divergence.field, live),
    }
}

fn text(live: &Value) -> Option<Value> {
    match live {
        Value::String(_) => Some(live.clone()),
        Value::Bool(_) | Value::Number(_) => Some(Value::String(live.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number, a text of digits, or the size of a disk in gibibytes.
fn integer(live: &Value) -> Option<i64> {
    const SIZES: [(&str, i64); 3] = [("Gi", 1), ("Ti", 1 << 10), ("Pi", 1 << 20)];
    if let Some(number) = live.as_i64() {
        return Some(number);
    }
    let text = live.as_str()?;
    let size = SIZES.iter().find_map(|(unit, gibibytes)| {
        text.strip_suffix(unit)?.parse::<i64>().ok()?.checked_mul(*gibibytes)
    });
    text.parse().ok().or(size)
}

/// The whole list, or the present one with another entry.
fn list(now: Option<&Value>, field: &str, live: &Value) -> Option<Value> {
    match live {
        Value::Array(_) => Some(live.clone()),
        Value::Null => Some(Value::Array(Vec::new())),
        Value::String(_) => {
            let mut list = now?.as_array()?.clone();
            let entry = list.get_mut(last(field).parse::<usize>().ok()?)?;
            *entry = live.clone();
            Some(Value::Array(list))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The whole map, or the present one with another entry, or without it.
fn map(now: Option<&Value>, field: &str, live: &Value) -> Option<Value> {
    let mut map: Map<String, Value> = now.and_then(Value::as_object).cloned().unwrap_or_default();
    match live {
        Value::Object(_) => return Some(live.clone()),
        Value::String(_) => {
            map.insert(last(field).to_owned(), live.clone());
        }
        Value::Null => {
            map.remove(last(field))?;
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    }
    Some(Value::Object(map))
}

/// The last segment of a path. Names of variables have no dots.
fn last(field: &str) -> &str {
    field.rsplit_once('.').map_or(field, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_integer_may_be_written_as_text_or_as_the_size_of_a_disk() {
        let table = [
            (json!(3), Some(3)),
            (json!("3"), Some(3)),
            (json!("20Gi"), Some(20)),
            (json!("2Ti"), Some(2048)),
            (json!("20G"), None),
            (json!("x"), None),
            (json!(1.5), None),
            (json!(null), None),
        ];
        for (live, expected) in table {
            assert_eq!(integer(&live), expected, "{live}");
        }
    }

    #[test]
    fn a_list_or_a_map_keeps_its_other_entries() {
        let (words, names) = (json!(["-N", "100"]), json!({"A": "1", "B": "2"}));
        let in_list = |field, live| list(Some(&words), field, &live);
        assert_eq!(in_list("x.args.1", json!("200")), Some(json!(["-N", "200"])));
        assert_eq!(in_list("x.args.7", json!("200")), None);
        assert_eq!(in_list("x.args", json!(["a"])), Some(json!(["a"])));
        assert_eq!(in_list("x.args", json!(null)), Some(json!([])));
        let in_map = |field, live| map(Some(&names), field, &live);
        assert_eq!(in_map("data.A", json!("3")), Some(json!({"A": "3", "B": "2"})));
        assert_eq!(in_map("data.C", json!("3")), Some(json!({"A": "1", "B": "2", "C": "3"})));
        assert_eq!(in_map("data.A", json!(null)), Some(json!({"B": "2"})));
        assert_eq!(in_map("data.C", json!(null)), None);
    }
}
