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

use super::failure::{Exit, Failure};

/// What `trueup up` leaves for the commands on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientFile {
    /// Where Trueup listens.
    pub(crate) url: String,
    /// The owner token of the demo org.
    pub(crate) token: String,
    /// The project that is meant where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    /// The cluster that was chosen instead of a local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl ClientFile {
    /// Where it is.
    pub(crate) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("client.json")
    }

    /// Reads it; `None` where there is none.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
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
    pub(crate) fn write(&self, data_dir: &Path) -> io::Result<()> {
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
pub(crate) struct Credentials {
    /// Where Trueup listens.
    pub(crate) url: String,
    /// Who asks.
    pub(crate) token: String,
    /// The project that is meant where none is named.
    pub(crate) project: Option<String>,
}

/// Decides between flags and file.
pub(crate) fn choose(
    url: Option<&str>,
    token: Option<&str>,
    file: Option<ClientFile>,
) -> Result<Credentials, Failure> {
    match (url, token, file) {
        (Some(url), Some(token), file) => Ok(Credentials {
            project: file.filter(|file| same(&file.url, url)).and_then(|file| file.project),
            url: url.to_owned(),
            token: token.to_owned(),
        }),
        (None, token, Some(file)) => Ok(Credentials {
            url: file.url,
            token: token.map_or(file.token, str::to_owned),
            project: file.project,
        }),
        (Some(url), None, Some(file)) if same(&file.url, url) => {
            Ok(Credentials { url: file.url, token: file.token, project: file.project })
        }
        (Some(url), None, _) => {
            Err(Failure::new(Exit::Usage, format!("there is no token for {url}"))
                .hint("pass one with --token or TRUEUP_TOKEN"))
        }
        (None, _, None) => Err(Failure::new(Exit::Unreachable, "it is not known where Trueup is")
            .hint("run `trueup up` on this machine, or pass --url and --token")),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Option<ClientFile> {
        Some(ClientFile {
            url: "http://127.0.0.1:7070".to_owned(),
            token: "file".to_owned(),
            project: Some("shop".to_owned()),
            kubeconfig: None,
        })
    }

    fn chosen(url: Option<&str>, token: Option<&str>, file: Option<ClientFile>) -> String {
        match choose(url, token, file) {
            Ok(c) => format!("{} {} {}", c.url, c.token, c.project.unwrap_or_default()),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn the_files_token_goes_to_the_files_address_alone() {
        let (local, other) = ("http://127.0.0.1:7070", "http://elsewhere");
        assert_eq!(chosen(None, None, file()), format!("{local} file shop"));
        assert_eq!(chosen(None, Some("t"), file()), format!("{local} t shop"));
        assert_eq!(
            chosen(Some("http://127.0.0.1:7070/"), None, file()),
            format!("{local} file shop")
        );
        assert_eq!(chosen(Some(other), None, file()), format!("there is no token for {other}"));
        assert_eq!(chosen(Some(other), Some("t"), file()), format!("{other} t "));
        assert_eq!(chosen(Some(other), Some("t"), None), format!("{other} t "));
        assert_eq!(chosen(None, Some("t"), None), "it is not known where Trueup is");
    }
}
