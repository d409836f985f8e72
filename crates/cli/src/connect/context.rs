//! The global flags and the context that every command receives.

use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;
use trueup_api::{Client, RetryNotice};

use crate::connect::connection::{ClientFile, Credentials, choose};
use crate::connect::contexts::Contexts;
use crate::failure::{Exit, Failure};
use crate::output::format::Output;
use crate::output::progress::Progress;
use crate::output::table::Table;
use crate::output::terminal::Terminal;
use trueup_model::secret::SecretValue;

/// Flags that every command takes.
#[derive(Debug, clap::Args)]
pub struct Globals {
    /// Data directory of the Trueup on this machine
    #[arg(
        long,
        global = true,
        env = "TRUEUP_DATA_DIR",
        value_name = "DIR",
        help_heading = "Global options"
    )]
    data_dir: Option<PathBuf>,
    /// Server address; the default is the Trueup on this machine
    #[arg(long, global = true, env = "TRUEUP_URL", help_heading = "Global options")]
    url: Option<String>,
    /// API token
    #[arg(
        long,
        global = true,
        env = "TRUEUP_TOKEN",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    token: Option<SecretValue>,
    /// Context to use instead of the current one; `local` is the install on this machine
    #[arg(
        long,
        global = true,
        env = "TRUEUP_CONTEXT",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    context: Option<String>,
    /// Output format
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
    /// Project for names and manifests that do not include one
    #[arg(
        short,
        long,
        global = true,
        env = "TRUEUP_PROJECT",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    project: Option<String>,
    /// Org to act in; only for operators, whose tokens belong to no org
    #[arg(
        long,
        global = true,
        env = "TRUEUP_ORG",
        value_name = "NAME",
        help_heading = "Global options"
    )]
    org: Option<String>,
    /// Disable colour (also with NO_COLOR, or if the output is not a terminal)
    #[arg(long, global = true, help_heading = "Global options")]
    no_color: bool,
}

impl Globals {
    /// The flags as the environment sets them, for what has no command line of its own.
    #[must_use]
    pub fn from_environment() -> Self {
        #[derive(Debug, Parser)]
        struct OnlyGlobals {
            #[command(flatten)]
            globals: Globals,
        }
        OnlyGlobals::parse_from(["trueup"]).globals
    }

    /// Fills in defaults. `data_dir` returns the default data directory of this machine's server.
    #[must_use]
    pub fn into_context(self, data_dir: impl FnOnce() -> PathBuf) -> Context {
        let disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Context {
            terminal: Terminal::new(self.no_color || disabled),
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

/// The global settings of a command.
#[derive(Debug)]
pub struct Context {
    /// Writes to stdout and stderr.
    pub terminal: Terminal,
    /// Data directory of the Trueup on this machine.
    pub data_dir: PathBuf,
    /// The output format.
    pub output: Output,
    /// The project from the flags.
    pub project: Option<String>,
    /// The org from the flags.
    pub org: Option<String>,
    url: Option<String>,
    token: Option<SecretValue>,
    context: Option<String>,
}

/// A client and the default project.
#[derive(Debug)]
pub struct Connection {
    /// The API client.
    pub client: Client,
    /// The project of the context or of the file that `trueup up` wrote.
    pub default_project: Option<String>,
}

impl Context {
    /// The address from the flags.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The token from the flags.
    pub const fn token(&self) -> Option<&SecretValue> {
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
        let client = Client::new(&chosen.url, chosen.token.reveal())?.with_retries(report_retry);
        let client = match self.org.as_ref().or(chosen.org.as_ref()) {
            Some(org) => client.with_org(org)?,
            None => client,
        };
        Ok(Connection { client, default_project: chosen.project })
    }

    /// The project of a manifest: its own, the one from the flags, or the default.
    pub fn project_of(
        &self,
        named: Option<&String>,
        connection: &Connection,
    ) -> Result<String, Failure> {
        let chosen = named.or(self.project.as_ref()).or(connection.default_project.as_ref());
        chosen.cloned().ok_or_else(|| {
            Failure::new(Exit::Failed, "field `project` is missing")
                .hint("add `project: …`, or pass the project with -p")
        })
    }

    /// Prints a table: as wide as the terminal where there is one, unless all of it is asked for.
    pub fn table(&self, table: &Table) -> io::Result<()> {
        let (style, width) = (self.terminal.style(), self.terminal.width());
        let text = match width.filter(|_| self.output != Output::Wide) {
            Some(width) => table.clone().fitted(width).render(style),
            None => table.render(style),
        };
        self.terminal.line(&text)
    }

    /// Awaits a future and shows a progress line on stderr if it takes long.
    pub async fn wait<F: Future>(&self, what: &str, future: F) -> F::Output {
        Progress::new(self.terminal, what).wait(future).await
    }
}

/// Says on stderr that a request is retried.
fn report_retry(retry: &RetryNotice<'_>) {
    let title = retry.problem.title.to_lowercase();
    let seconds = retry.pause.as_secs();
    // Without stderr the retry itself still counts.
    let _written = writeln!(io::stderr().lock(), "{title}; retrying in {seconds} s");
}
