//! Chooses the server address and the token.
//!
//! `trueup up` writes a file into the data directory, so that commands on the same machine need no
//! flags. The file's token is only sent to the file's address: another `--url` never receives it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::connect::contexts::NamedContext;
use crate::failure::{Exit, Failure};
use trueup_model::secret::{SecretValue, expose};

/// Connection data that `trueup up` writes for commands on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFile {
    /// The server's address.
    pub url: String,
    /// The owner token of the demo org.
    #[serde(serialize_with = "expose")]
    pub token: SecretValue,
    /// The default project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The URL for other machines, if they may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// The kubeconfig given with `--cluster`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClientFile {
    /// The path of the file.
    pub fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("client.json")
    }

    /// Reads the file; `None` if there is none.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
        let path = Self::path(data_dir);
        let wrong = |why: String| {
            Failure::new(Exit::Failed, format!("cannot read {}: {why}", path.display()))
                .hint("run `trueup up` to rewrite it, or pass --url and --token")
        };
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(file) => Ok(Some(file)),
                Err(error) => Err(wrong(error.to_string())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Removes the file: nobody should be sent its token while the server is down. It is rewritten at the next start.
    pub fn remove(data_dir: &Path) {
        fs::remove_file(Self::path(data_dir)).ok();
    }

    /// Writes the file atomically, readable only by its owner.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let path = Self::path(data_dir);
        let draft = path.with_extension("json.new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&draft, &path)
    }
}

/// An address and a token that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The server's address.
    pub url: String,
    /// The caller's token.
    pub token: SecretValue,
    /// The org to act in; for operators.
    pub org: Option<String>,
    /// The default project.
    pub project: Option<String>,
}

impl From<ClientFile> for Credentials {
    fn from(file: ClientFile) -> Self {
        Self { url: file.url, token: file.token, org: None, project: file.project }
    }
}

impl From<&NamedContext> for Credentials {
    fn from(named: &NamedContext) -> Self {
        let NamedContext { url, token, org, project } = named.clone();
        Self { url, token, org, project }
    }
}

/// Picks the credentials: flags first, then the context in use, then this machine's install.
///
/// A stored token is only sent to the address it is stored with.
pub fn choose(
    url: Option<&str>,
    token: Option<&SecretValue>,
    known: Vec<Credentials>,
) -> Result<Credentials, Failure> {
    let mut known = known.into_iter();
    match (url, token) {
        (Some(url), Some(token)) => {
            let there = known.find(|one| same(&one.url, url));
            let (org, project) = there.map(|one| (one.org, one.project)).unwrap_or_default();
            Ok(Credentials { url: url.to_owned(), token: token.clone(), org, project })
        }
        (Some(url), None) => known.find(|one| same(&one.url, url)).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no token for {url}"))
                .hint("pass one with --token or TRUEUP_TOKEN, or add a context")
        }),
        (None, token) => {
            let first = known.next().ok_or_else(|| {
                Failure::new(Exit::Unreachable, "no server configured")
                    .hint("run `trueup up` on this machine, or pass --url and --token")
            })?;
            Ok(Credentials { token: token.cloned().unwrap_or(first.token), ..first })
        }
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(url: &str, token: &str, project: &str) -> Credentials {
        let (org, project) = (None, Some(project.to_owned()));
        Credentials { url: url.to_owned(), token: token.to_owned().into(), org, project }
    }

    fn chosen(url: Option<&str>, token: Option<&str>, known: &[Credentials]) -> String {
        let token = token.map(|token| token.to_owned().into());
        match choose(url, token.as_ref(), known.to_vec()) {
            Ok(c) => format!("{} {} {}", c.url, c.token.reveal(), c.project.unwrap_or_default()),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn stored_token_is_only_sent_to_its_own_address() {
        let (local, other) = ("http://127.0.0.1:7070", "http://elsewhere");
        let file = [known(local, "file", "shop")];
        assert_eq!(chosen(None, None, &file), format!("{local} file shop"));
        assert_eq!(chosen(None, Some("t"), &file), format!("{local} t shop"));
        assert_eq!(
            chosen(Some("http://127.0.0.1:7070/"), None, &file),
            format!("{local} file shop")
        );
        assert_eq!(chosen(Some(other), None, &file), format!("there is no token for {other}"));
        assert_eq!(chosen(Some(other), Some("t"), &file), format!("{other} t "));
        assert_eq!(chosen(Some(other), Some("t"), &[]), format!("{other} t "));
        assert_eq!(chosen(None, Some("t"), &[]), "no server configured");
    }

    #[test]
    fn flags_override_the_context_and_the_context_overrides_the_install() {
        let (local, work) = ("http://127.0.0.1:7070", "https://work");
        let both = [known(work, "kept", "blog"), known(local, "file", "shop")];
        assert_eq!(chosen(None, None, &both), format!("{work} kept blog"));
        assert_eq!(chosen(None, Some("t"), &both), format!("{work} t blog"));
        assert_eq!(chosen(Some(local), None, &both), format!("{local} file shop"));
        assert_eq!(chosen(Some(work), Some("t"), &both), format!("{work} t blog"));
        assert_eq!(chosen(Some("http://x"), None, &both), "there is no token for http://x");
    }

    #[test]
    fn debug_output_hides_the_token() {
        assert!(!format!("{:?}", known("http://x", "canary", "p")).contains("canary"));
    }
}
