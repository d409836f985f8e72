//! Reads settings from flags and a TOML file, and collects everything that is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;
use toml::{Table, Value};
use trueup_model::secret::SecretValue;

/// A setting that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// Its key, such as `server.listen`.
    pub(crate) key: String,
    /// What is wrong, and what would be valid.
    pub(crate) message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// A setting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    /// Its key.
    pub(crate) key: &'static str,
    /// Its value; a secret is hidden.
    pub(crate) value: Option<String>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// A flag or an environment variable.
    Flag,
    /// The configuration file.
    File,
    /// Neither.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag or environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// Reads settings one by one. What is left in the file at the end is unknown.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The values of the file by dotted key.
    file: BTreeMap<String, Value>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
    shown: Vec<Shown>,
    faults: Vec<Fault>,
}

impl Reader {
    /// Reads this file; without one, only flags count.
    pub(super) fn of_file(path: Option<&Path>) -> Self {
        let mut reader = Self::default();
        let Some(path) = path else { return reader };
        let parsed = fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|text| text.parse::<Table>().map_err(|error| syntax_error(&text, &error)));
        match parsed {
            Ok(table) => flatten("", table, &mut reader.file),
            Err(why) => reader.fault(&path.display().to_string(), why.trim().to_owned()),
        }
        reader
    }

    /// A setting with one value.
    pub(super) fn one<T>(
        &mut self,
        key: &'static str,
        flag: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (text, source) = match (flag, self.take(key)) {
            (Some(flag), _) => (flag.to_owned(), Source::Flag),
            (None, Some(value)) => (self.text(key, &value)?, Source::File),
            (None, None) => {
                self.show(key, None, Source::Default);
                return None;
            }
        };
        self.show(key, Some(text.clone()), source);
        self.checked(key, parse(&text))
    }

    /// A setting with a list of values.
    pub(super) fn many<T>(
        &mut self,
        key: &'static str,
        flags: &[String],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let (texts, source) = match self.take(key) {
            found if !flags.is_empty() => {
                drop(found);
                (flags.to_vec(), Source::Flag)
            }
            Some(Value::Array(items)) => {
                let texts = items.iter().filter_map(|item| self.text(key, item)).collect();
                (texts, Source::File)
            }
            Some(_) => {
                self.fault(key, "must be a list, like [\"…\"]".to_owned());
                return Vec::new();
            }
            None => (Vec::new(), Source::Default),
        };
        let value = (!texts.is_empty()).then(|| texts.join(", "));
        self.show(key, value, source);
        texts.iter().filter_map(|text| self.checked(key, parse(text))).collect()
    }

    /// A setting that is never shown.
    pub(super) fn secret(
        &mut self,
        key: &'static str,
        flag: Option<&SecretValue>,
    ) -> Option<SecretValue> {
        let (secret, source) = match (flag, self.take(key)) {
            (Some(flag), _) => (flag.clone(), Source::Flag),
            (None, Some(value)) => (SecretValue::from(self.text(key, &value)?), Source::File),
            (None, None) => {
                self.show(key, None, Source::Default);
                return None;
            }
        };
        self.show(key, Some("(hidden)".to_owned()), source);
        Some(secret)
    }

    /// Records that a setting is wrong.
    pub(super) fn fault(&mut self, key: &str, message: String) {
        self.faults.push(Fault { key: key.to_owned(), message });
    }

    /// Records that a setting is missing, unless it is already known to be wrong.
    pub(super) fn require(&mut self, key: &'static str, why: &str) {
        if !self.faults.iter().any(|fault| fault.key == key) {
            self.fault(key, why.to_owned());
        }
    }

    /// Whether any setting below this key was given.
    pub(super) fn mentions(&self, table: &str) -> bool {
        self.shown.iter().any(|it| it.key.starts_with(table) && it.source != Source::Default)
    }

    /// Whether this setting comes from the file.
    pub(super) fn file_has(&self, key: &str) -> bool {
        self.shown.iter().any(|it| it.key == key && it.source == Source::File)
    }

    /// Every setting and every fault, unknown keys of the file among them.
    pub(super) fn finish(mut self) -> (Vec<Shown>, Vec<Fault>) {
        for key in std::mem::take(&mut self.file).into_keys() {
            let message = match alternatives(&key, &self.known) {
                names if names.is_empty() => {
                    format!("unknown key; there are {}", self.known.join(", "))
                }
                names => format!("unknown key; did you mean {}?", names.join(" or ")),
            };
            self.fault(&key, message);
        }
        (self.shown, self.faults)
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.file.remove(key)
    }

    /// The text of a value that is a text, a number or a boolean.
    fn text(&mut self, key: &'static str, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Boolean(boolean) => Some(boolean.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Datetime(time) => Some(time.to_string()),
            Value::Array(_) | Value::Table(_) => None,
        };
        if text.is_none() {
            self.fault(key, format!("must be one value, not a {}", value.type_str()));
        }
        text
    }

    fn show(&mut self, key: &'static str, value: Option<String>, source: Source) {
        self.shown.push(Shown { key, value, source });
    }

    fn checked<T>(&mut self, key: &'static str, parsed: Result<T, String>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(key, message);
                None
            }
        }
    }
}

/// What is wrong, and in which line. The error's own text quotes the line, which may contain a
/// password.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    format!("line {line}: {}", error.message())
}

/// The values of nested tables by dotted key.
fn flatten(prefix: &str, table: Table, values: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) => flatten(&key, inner, values),
            value => {
                values.insert(key, value);
            }
        }
    }
}

/// Known keys that a wrong one may have meant: those with the same last part, or in the same table.
fn alternatives<'a>(wrong: &str, known: &[&'a str]) -> Vec<&'a str> {
    let parts = |key: &str| {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        (table.to_owned(), name.to_owned())
    };
    let (table, name) = parts(wrong);
    let with = |wanted: &dyn Fn(&(String, String)) -> bool| -> Vec<&'a str> {
        known.iter().copied().filter(|key| wanted(&parts(key))).collect()
    };
    let same_name = with(&|(_, known)| *known == name);
    if same_name.is_empty() { with(&|(known, _)| *known == table) } else { same_name }
}
