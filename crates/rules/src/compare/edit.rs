//! Edits inside of an object, by path.

use serde_json::Value;

use crate::compare::path::PathSegment;

/// The value at a path.
pub(crate) fn at<'v>(object: &'v mut Value, steps: &[PathSegment<'_>]) -> Option<&'v mut Value> {
    steps.iter().try_fold(object, |value, step| match step {
        PathSegment::Field(name) => value.get_mut(*name),
        PathSegment::Entry(place, _) => value.get_mut(*place),
    })
}

/// Sets the value at a path, or removes it. A list is removed with its last entry.
pub(crate) fn set(object: &mut Value, steps: &[PathSegment<'_>], value: Option<&Value>) {
    let Some((last, parents)) = steps.split_last() else { return };
    match (at(object, parents), last, value) {
        (Some(Value::Object(fields)), PathSegment::Field(name), Some(value)) => {
            fields.insert((*name).to_owned(), value.clone());
        }
        (Some(Value::Object(fields)), PathSegment::Field(name), None) => {
            fields.remove(*name);
        }
        (Some(Value::Array(list)), PathSegment::Entry(place, _), Some(value)) => {
            if let Some(entry) = list.get_mut(*place) {
                *entry = value.clone();
            }
        }
        (Some(Value::Array(list)), PathSegment::Entry(place, _), None) if *place < list.len() => {
            list.remove(*place);
            if list.is_empty() {
                set(object, parents, None);
            }
        }
        _ => {}
    }
}

/// Adds the uid and version of the live object to a write: the server then rejects it if the object
/// was changed or replaced meanwhile.
pub(crate) fn guard(write: &mut Value, live: &Value) {
    for name in ["uid", "resourceVersion"] {
        write["metadata"][name] = live["metadata"][name].clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_set_or_removed_and_an_emptied_list_goes() {
        let entry = json!({"name": "A"});
        let field = PathSegment::Field;
        let place = |number| PathSegment::Entry(number, &entry);
        let start = json!({"spec": {"replicas": 1, "args": ["a", "b"], "env": [{"name": "A"}]}});
        let table: Vec<(Vec<PathSegment<'_>>, Option<Value>, Value)> = vec![
            (vec![field("replicas")], Some(json!(3)), json!({"replicas": 3})),
            (vec![field("paused")], Some(json!(true)), json!({"paused": true})),
            (vec![field("replicas")], None, json!({"replicas": null})),
            (vec![field("args"), place(1)], Some(json!("c")), json!({"args": ["a", "c"]})),
            (vec![field("args"), place(0)], None, json!({"args": ["b"]})),
            (vec![field("env"), place(0)], None, json!({"env": null})),
            (vec![field("args"), place(7)], None, json!({"args": ["a", "b"]})),
        ];
        for (steps, value, expected) in table {
            let mut object = start.clone();
            let steps: Vec<_> = std::iter::once(field("spec")).chain(steps).collect();
            set(&mut object, &steps, value.as_ref());
            for (name, expected) in expected.as_object().unwrap() {
                assert_eq!(object["spec"][name], *expected, "{steps:?}");
            }
        }
    }
}
