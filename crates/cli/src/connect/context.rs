//! What every command is given: the global flags, decided once.

use std::future::Future;
use std::path::PathBuf;

use trueup_api::Client;

use crate::connect::connection::{ClientFile, Credentials, choose};
use crate::connect::contexts::Contexts;
use crate::failure::{Exit, Failure};
use crate::output::format::Output;
use crate::output::progress::Progress;
use crate::output::terminal::Terminal;
use crate::secret::Secret;

/// Flags that every command takes.
#[derive(Debug, clap::Args)]
pub struct Globals {
    /// Where this machine's Trueup keeps its data
    #[arg(
        long,
        global = true,
        env = "TRUEUP_DATA_DIR",
        value_name = "DIR",
        help_heading = "Global options"
    )]
    data_dir: Option<PathBuf>,
    /// The address of Trueup, where it is not this machine's
    #[arg(long, global = true, env = "TRUEUP_URL", help_heading = "Global options")]
    url: Option<String>,
    /// The token to ask with
    #[arg(
        long,
        global = true,
        env = "TRUEUP_TOKEN",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    token: Option<Secret>,
    /// The context to use instead of the current one; `local` is this machine's install
    #[arg(
        long,
        global = true,
        env = "TRUEUP_CONTEXT",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    context: Option<String>,
    /// How results are printed
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    output: Output,
    /// The project that is meant where a name or manifest does not say it
    #[arg(
        short,
        long,
        global = true,
        env = "TRUEUP_PROJECT",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    project: Option<String>,
    /// The org that is meant; only for operators, whose token belongs to none
    #[arg(
        long,
        global = true,
        env = "TRUEUP_ORG",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    org: Option<String>,
    /// No colour (also with NO_COLOR, and where the output is no terminal)
    #[arg(long, global = true, help_heading = "Global options")]
    no_color: bool,
}

impl Globals {
    /// Decides what was left open. `data_dir` is where this machine's server keeps its data by default.
    #[must_use]
    pub fn into_context(self, data_dir: impl FnOnce() -> PathBuf) -> Context {
        let said_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Context {
            terminal: Terminal::new(self.no_color || said_no),
            data_dir: self.data_dir.unwrap_or_else(data_dir),
            output: self.output,
            project: self.project.filter(|project| !project.is_empty()),
            org: self.org.filter(|org| !org.is_empty()),
            url: self.url.filter(|url| !url.is_empty()),
            token: self.token.filter(|token| !token.reveal().is_empty()),
            context: self.context.filter(|name| !name.is_empty()),
        }
    }
}

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    /// Where to write.
    pub terminal: Terminal,
    /// Where this machine's Trueup keeps its data.
    pub data_dir: PathBuf,
    /// How to write results.
    pub output: Output,
    /// The project from the flags.
    pub project: Option<String>,
    /// The org from the flags.
    pub org: Option<String>,
    url: Option<String>,
    token: Option<Secret>,
    context: Option<String>,
}

/// A client, and the project that is meant where none is named.
#[derive(Debug)]
pub struct Connection {
    /// Speaks to Trueup.
    pub client: Client,
    /// From the file that `trueup up` wrote.
    pub default_project: Option<String>,
}

impl Context {
    /// The address from the flags.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The token from the flags.
    pub const fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// The name of the context from the flags.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The address and the token that commands use.
    pub fn credentials(&self) -> anyhow::Result<Credentials> {
        let contexts = Contexts::read()?;
        let named = contexts.choose(self.context())?.map(|(_, named)| named.into());
        let file = ClientFile::read(&self.data_dir)?.map(Credentials::from);
        let known = named.into_iter().chain(file).collect();
        Ok(choose(self.url.as_deref(), self.token.as_ref(), known)?)
    }

    /// A client with the address and token from the flags, the context or the data directory.
    pub fn connect(&self) -> anyhow::Result<Connection> {
        let chosen = self.credentials()?;
        let client = Client::new(&chosen.url, chosen.token.reveal())?;
        let client = match self.org.as_ref().or(chosen.org.as_ref()) {
            Some(org) => client.with_org(org)?,
            None => client,
        };
        Ok(Connection { client, default_project: chosen.project })
    }

    /// The project of a manifest: its own, that of the flags, or the default one.
    pub fn project_of(
        &self,
        said: Option<&String>,
        connection: &Connection,
    ) -> Result<String, Failure> {
        let chosen = said.or(self.project.as_ref()).or(connection.default_project.as_ref());
        chosen.cloned().ok_or_else(|| {
            Failure::new(Exit::Failed, "field `project` is missing")
                .hint("add `project: …`, or pass the project with -p")
        })
    }

    /// Awaits one answer, and says on stderr what is waited for when it takes long.
    pub async fn ask<F: Future>(&self, what: &str, future: F) -> F::Output {
        Progress::new(self.terminal, what).wait(future).await
    }
}
