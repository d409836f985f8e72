//! What every command is given: the global flags, decided once.

use std::future::Future;
use std::path::PathBuf;

use trueup_api::Client;

use super::connection::{ClientFile, Credentials, choose};
use super::contexts::Contexts;
use super::failure::{Exit, Failure};
use super::output::Output;
use super::progress::Progress;
use super::secret::Secret;
use super::terminal::Terminal;

/// Flags that every command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Globals {
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
    /// Decides what was left open.
    pub(crate) fn into_context(self) -> Context {
        let said_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Context {
            terminal: Terminal::new(self.no_color || said_no),
            data_dir: self.data_dir.unwrap_or_else(trueup_local::layout::default_data_dir),
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
pub(crate) struct Context {
    /// Where to write.
    pub(crate) terminal: Terminal,
    /// Where this machine's Trueup keeps its data.
    pub(crate) data_dir: PathBuf,
    /// How to write results.
    pub(crate) output: Output,
    /// The project from the flags.
    pub(crate) project: Option<String>,
    /// The org from the flags.
    pub(crate) org: Option<String>,
    url: Option<String>,
    token: Option<Secret>,
    context: Option<String>,
}

/// A client, and the project that is meant where none is named.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Speaks to Trueup.
    pub(crate) client: Client,
    /// From the file that `trueup up` wrote.
    pub(crate) default_project: Option<String>,
}

impl Context {
    /// The address from the flags.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The token from the flags.
    pub(crate) const fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// The name of the context from the flags.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// A client with the address and token from the flags, the context or the data directory.
    pub(crate) fn connect(&self) -> anyhow::Result<Connection> {
        let contexts = Contexts::read()?;
        let named = contexts.choose(self.context())?.map(|(_, named)| named.into());
        let file = ClientFile::read(&self.data_dir)?.map(Credentials::from);
        let known = named.into_iter().chain(file).collect();
        let chosen = choose(self.url.as_deref(), self.token.as_ref(), known)?;
        let client = Client::new(&chosen.url, chosen.token.reveal())?;
        let client = match self.org.as_ref().or(chosen.org.as_ref()) {
            Some(org) => client.with_org(org)?,
            None => client,
        };
        Ok(Connection { client, default_project: chosen.project })
    }

    /// The project of a manifest: its own, that of the flags, or the default one.
    pub(crate) fn project_of(
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
    pub(crate) async fn ask<F: Future>(&self, what: &str, future: F) -> F::Output {
        Progress::new(self.terminal, what).wait(future).await
    }
}
