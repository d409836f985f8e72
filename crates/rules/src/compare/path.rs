//! Where inside an object something is: the steps from its root, as people read them and as the
//! server's record of field managers spells them.

use std::fmt;

use serde_json::Value;

/// One step down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathSegment<'a> {
    /// Into a field.
    Field(&'a str),
    /// Into an entry of a list: its place there, and the entry itself, which has what it is known by.
    Entry(usize, &'a Value),
}

/// The way to one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path<'a>(pub(crate) Vec<PathSegment<'a>>);

impl<'a> Path<'a> {
    /// Goes down while `below` runs; answers what it answers.
    pub(crate) fn inside<T>(
        &mut self,
        step: PathSegment<'a>,
        below: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.0.push(step);
        let answer = below(self);
        self.0.pop();
        answer
    }

    /// Whether this is a field below the root, by the names of the fields on the way.
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        self.0.len() == names.len()
            && self.0.iter().zip(names).all(|(step, name)| match step {
                PathSegment::Field(field) => field == name,
                PathSegment::Entry(..) => false,
            })
    }
}

impl fmt::Display for Path<'_> {
    /// StateChanges with points between them; an entry that has a name goes by it.
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
