//! Which Trueup to talk to, and as whom.
//!
//! `trueup up` leaves a file in the data directory, so that on the same machine nothing has to be
//! passed. The file's token is for the file's address alone: naming another address never sends
//! this machine's token there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::connect::contexts::Named;
use crate::failure::{Exit, Failure};
use crate::secret::Secret;

/// What `trueup up` leaves for the commands on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFile {
    /// Where Trueup listens.
    pub url: String,
    /// The owner token of the demo org.
    pub token: Secret,
    /// The project that is meant where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The cluster that was chosen instead of a local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClientFile {
    /// Where it is.
    pub fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("client.json")
    }

    /// Reads it; `None` where there is none.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
        let path = Self::path(data_dir);
        let wrong = |why: String| {
            Failure::new(Exit::Failed, format!("cannot read {}: {why}", path.display()))
                .hint("run `trueup up` to write it anew, or pass --url and --token")
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

    /// Writes it whole or not at all, readable by its owner alone.
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
    /// Where Trueup listens.
    pub url: String,
    /// Who asks.
    pub token: Secret,
    /// The org that is meant; for operators.
    pub org: Option<String>,
    /// The project that is meant where none is named.
    pub project: Option<String>,
}

impl From<ClientFile> for Credentials {
    fn from(file: ClientFile) -> Self {
        Self { url: file.url, token: file.token, org: None, project: file.project }
    }
}

impl From<&Named> for Credentials {
    fn from(named: &Named) -> Self {
        let Named { url, token, org, project } = named.clone();
        Self { url, token, org, project }
    }
}

/// Decides between flags and what is known: the context in use first, then this machine's install.
///
/// A token that is kept goes to the address that it is kept with, and to no other.
pub fn choose(
    url: Option<&str>,
    token: Option<&Secret>,
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
                Failure::new(Exit::Unreachable, "it is not known where Trueup is")
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
    fn a_kept_token_goes_to_its_own_address_alone() {
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
        assert_eq!(chosen(None, Some("t"), &[]), "it is not known where Trueup is");
    }

    #[test]
    fn a_context_comes_before_the_install_and_flags_before_both() {
        let (local, work) = ("http://127.0.0.1:7070", "https://work");
        let both = [known(work, "kept", "blog"), known(local, "file", "shop")];
        assert_eq!(chosen(None, None, &both), format!("{work} kept blog"));
        assert_eq!(chosen(None, Some("t"), &both), format!("{work} t blog"));
        assert_eq!(chosen(Some(local), None, &both), format!("{local} file shop"));
        assert_eq!(chosen(Some(work), Some("t"), &both), format!("{work} t blog"));
        assert_eq!(chosen(Some("http://x"), None, &both), "there is no token for http://x");
    }

    #[test]
    fn a_token_is_in_no_debug_output() {
        assert!(!format!("{:?}", known("http://x", "canary", "p")).contains("canary"));
    }
}
