//! Paths inside of an object, for display and for lookups in `managedFields`.

use std::fmt;

use serde_json::Value;

/// One segment of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathSegment<'a> {
    /// A field.
    Field(&'a str),
    /// A list entry: its index, and the entry itself with its merge keys.
    Entry(usize, &'a Value),
}

/// A path from the root of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path<'a>(pub(crate) Vec<PathSegment<'a>>);

impl<'a> Path<'a> {
    /// Runs `below` with one more segment, and returns its result.
    pub(crate) fn inside<T>(
        &mut self,
        step: PathSegment<'a>,
        below: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.0.push(step);
        let result = below(self);
        self.0.pop();
        result
    }

    /// The value here in another object; named list entries are found by their name.
    pub(crate) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            PathSegment::Field(name) => value.get(*name),
            PathSegment::Entry(_, entry) if entry["name"].is_string() => {
                let named = |other: &&Value| other["name"] == entry["name"];
                value.as_array()?.iter().find(named)
            }
            PathSegment::Entry(place, _) => value.get(*place),
        })
    }

    /// Whether the path consists of exactly these fields.
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        self.0.len() == names.len()
            && self.0.iter().zip(names).all(|(step, name)| match step {
                PathSegment::Field(field) => field == name,
                PathSegment::Entry(..) => false,
            })
    }
}

impl fmt::Display for Path<'_> {
    /// Segments with dots in between; a named entry is shown by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(".")?;
            }
            match step {
                PathSegment::Field(name) => f.write_str(name)?,
                PathSegment::Entry(place, entry) => match entry["name"].as_str() {
                    Some(name) => f.write_str(name)?,
                    None => write!(f, "{place}")?,
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_finds_named_entries_by_name_and_others_by_place() {
        let entry = json!({"name": "b"});
        let (c, args) = (PathSegment::Field("c"), PathSegment::Field("args"));
        let object =
            json!({"c": [{"name": "a", "x": 1}, {"name": "b", "x": 2}], "args": ["p", "q"]});
        let named = Path(vec![c, PathSegment::Entry(0, &entry), PathSegment::Field("x")]);
        assert_eq!(named.find(&object), Some(&json!(2)));
        assert_eq!(
            Path(vec![args, PathSegment::Entry(1, &entry["none"])]).find(&object),
            Some(&json!("q"))
        );
        assert_eq!(Path(vec![PathSegment::Field("none"), c]).find(&object), None);
    }
}
