//! Named contexts: a server, a token, an org and a project. Stored in one file that only its owner
//! can read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use trueup_model::secret::{SecretValue, expose};

/// The reserved name of this machine's install, which needs no context.
pub const LOCAL: &str = "local";

/// One named connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedContext {
    /// The server's address.
    pub url: String,
    /// The caller's token.
    #[serde(serialize_with = "expose")]
    pub token: SecretValue,
    /// The org to act in; for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
    /// The default project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// All contexts and the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The current context; `None` means this machine's install.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, NamedContext>,
}

/// The path of the context file: `TRUEUP_CONFIG`, or in the user's configuration directory.
pub fn path() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = given("TRUEUP_CONFIG") {
        return Some(path.into());
    }
    let base = given("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| given("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(base.join("trueup").join("config.yaml"))
}

impl Contexts {
    /// Reads the context file; empty if there is none.
    pub fn read() -> Result<Self, Failure> {
        path().map_or_else(|| Ok(Self::default()), |path| Self::read_from(&path))
    }

    fn read_from(path: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| {
            Failure::new(Exit::Failed, format!("cannot read {}: {why}", path.display()))
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mode =
            fs::metadata(path).map_err(|error| wrong(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            let why = "the file holds tokens and other users can read it".to_owned();
            return Err(wrong(why).hint(format!("run `chmod 600 {}`", path.display())));
        }
        // The parse error is not shown: it may quote a token.
        serde_saphyr::from_str(&text).map_err(|_| {
            wrong("not a valid context file".to_owned())
                .hint("fix it, or move it away and add the contexts again")
        })
    }

    /// Writes the context file atomically, readable only by its owner.
    pub fn write(&self) -> anyhow::Result<()> {
        let path = path().ok_or_else(|| {
            Failure::new(Exit::Failed, "no location for the context file")
                .hint("set HOME, or TRUEUP_CONFIG to a path")
        })?;
        self.write_to(&path).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())).into()
        })
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let draft = path.with_extension("new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let text = serde_saphyr::to_string(self).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    }

    /// The named context, or else the current one; `None` is this machine's install.
    pub fn choose(&self, named: Option<&str>) -> Result<Option<(&str, &NamedContext)>, Failure> {
        match named.or(self.current.as_deref()) {
            None | Some(LOCAL) => Ok(None),
            Some(name) => self.get(name).map(Some),
        }
    }

    /// The context with this name.
    pub fn get(&self, name: &str) -> Result<(&str, &NamedContext), Failure> {
        let found = self.contexts.get_key_value(name).map(|(name, named)| (name.as_str(), named));
        found.ok_or_else(|| {
            let failure = Failure::new(Exit::NotFound, format!("there is no context `{name}`"));
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            if known.is_empty() {
                failure.hint("add one with `trueup context add`")
            } else {
                failure.hint(format!("contexts are {}", known.join(", ")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        let named = NamedContext {
            url: "https://trueup.example".to_owned(),
            token: "canary".to_owned().into(),
            org: None,
            project: Some("shop".to_owned()),
        };
        Contexts { current: None, contexts: BTreeMap::from([("work".to_owned(), named)]) }
    }

    #[test]
    fn context_file_is_private_and_round_trips() {
        let folder = std::env::temp_dir().join(format!("trueup-contexts-{}", std::process::id()));
        let path = folder.join("a").join("config.yaml");
        contexts().write_to(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Contexts::read_from(&path).unwrap(), contexts());
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let refused = Contexts::read_from(&path).unwrap_err();
        assert!(refused.to_string().contains("other users"), "{refused}");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(&path, "contexts: {a: canary}").unwrap();
        let refused = Contexts::read_from(&path).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("canary"), "{refused:?}");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Contexts::read_from(&path).unwrap(), Contexts::default());
    }

    #[test]
    fn context_is_chosen_by_name_or_by_being_current() {
        let mut all = contexts();
        assert_eq!(all.choose(None).unwrap(), None);
        assert_eq!(all.choose(Some("work")).unwrap().unwrap().0, "work");
        assert!(all.choose(Some("play")).unwrap_err().to_string().contains("no context `play`"));
        all.current = Some("work".to_owned());
        assert_eq!(all.choose(None).unwrap().unwrap().0, "work");
        assert_eq!(all.choose(Some(LOCAL)).unwrap(), None);
    }

    #[test]
    fn debug_output_hides_the_token() {
        assert!(!format!("{:?}", contexts()).contains("canary"));
    }
}
