//! `trueup context`: named connections to Trueup servers.

use std::io::BufRead;

use serde::Serialize;
use trueup_api::Client;

use crate::connect::connection::ClientFile;
use crate::connect::context::Context;
use crate::connect::contexts::{Contexts, LOCAL, NamedContext};
use crate::failure::{Exit, Failure};
use crate::output::table::{Cell, Table};
use trueup_model::secret::SecretValue;

/// Manage named connections to Trueup servers
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Save --url, --token (or a token on stdin), --org and --project under a name
    Add {
        /// Name of the context
        name: String,
        /// Save it without checking that the server answers
        #[arg(long)]
        unchecked: bool,
    },
    /// Switch to a context; `local` is the install on this machine
    Use {
        /// Name of the context
        name: String,
    },
    /// List the contexts
    List,
    /// Show a context, by default the current one, without its token
    Show {
        /// Name of the context
        name: Option<String>,
    },
    /// Remove a context. Its token stays valid: revoke it if it is no longer used
    Remove {
        /// Name of the context
        name: String,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Add { name, unchecked } => add(name, unchecked, context).await,
        Command::Use { name } => choose(&name, context),
        Command::List => list(context),
        Command::Show { name } => show(name.as_deref(), context),
        Command::Remove { name } => remove(&name, context),
    }
}

async fn add(name: String, unchecked: bool, context: &Context) -> anyhow::Result<Exit> {
    check_name(&name)?;
    let url = match context.url() {
        Some(url) => url.to_owned(),
        None => ClientFile::read(&context.data_dir)?.map(|file| file.url).ok_or_else(|| {
            Failure::new(Exit::Usage, "no server address given").hint("pass --url")
        })?,
    };
    let token = match context.token() {
        Some(token) => token.clone(),
        None => read_token(context)?,
    };
    let named =
        NamedContext { url, token, org: context.org.clone(), project: context.project.clone() };
    let client = Client::new(&named.url, named.token.reveal())?;
    let client = match &named.org {
        Some(org) => client.with_org(org)?,
        None => client,
    };
    let who = if unchecked {
        String::new()
    } else {
        let who = context.wait("waiting for Trueup", client.whoami()).await?;
        let place = who.org.map_or_else(|| "the platform".to_owned(), |org| org.name);
        format!(": {} ({} of {place})", who.name, who.role)
    };
    let mut all = Contexts::read()?;
    let url = client.base_url().to_owned();
    all.contexts.insert(name.clone(), named);
    all.write()?;
    context.terminal.note(&format!("saved context `{name}`: {url}{who}"))?;
    if all.current.as_deref() != Some(&name) {
        context.terminal.note(&format!("use it with `trueup context use {name}`, or --context"))?;
    }
    Ok(Exit::Ok)
}

/// Reads the token from stdin: an argument would end up in the shell's history.
fn read_token(context: &Context) -> anyhow::Result<SecretValue> {
    if context.terminal.is_live() {
        context.terminal.note("token (one line; or pass TRUEUP_TOKEN):")?;
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let token = line.trim().to_owned();
    if token.is_empty() {
        let failure = Failure::new(Exit::Usage, "no token given");
        return Err(failure.hint("pass it with --token, TRUEUP_TOKEN or on stdin").into());
    }
    Ok(token.into())
}

fn check_name(name: &str) -> Result<(), Failure> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.@".contains(&b);
    if name == LOCAL {
        let message = "`local` is the install on this machine and needs no context";
        return Err(Failure::new(Exit::Usage, message).hint("choose another name"));
    }
    if name.is_empty() || name.len() > 60 || !name.bytes().all(good) {
        return Err(Failure::new(Exit::Usage, format!("`{name}` is not a valid context name"))
            .hint("use at most 60 letters, digits and -_.@"));
    }
    Ok(())
}

fn choose(name: &str, context: &Context) -> anyhow::Result<Exit> {
    let mut all = Contexts::read()?;
    all.current = if name == LOCAL {
        None
    } else {
        all.get(name)?;
        Some(name.to_owned())
    };
    all.write()?;
    context.terminal.note(&format!("now using context `{name}`"))?;
    Ok(Exit::Ok)
}

/// A context without its token.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    current: bool,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a str>,
}

fn shown<'a>(name: &'a str, named: &'a NamedContext, all: &Contexts) -> Shown<'a> {
    Shown {
        name,
        current: all.current.as_deref() == Some(name),
        url: &named.url,
        org: named.org.as_deref(),
        project: named.project.as_deref(),
    }
}

fn list(context: &Context) -> anyhow::Result<Exit> {
    let all = Contexts::read()?;
    let items: Vec<Shown<'_>> =
        all.contexts.iter().map(|(name, named)| shown(name, named, &all)).collect();
    print(context, &items, || "no contexts; using the install on this machine")
}

fn show(name: Option<&str>, context: &Context) -> anyhow::Result<Exit> {
    let all = Contexts::read()?;
    let items: Vec<Shown<'_>> = match all.choose(name.or_else(|| context.context()))? {
        Some((name, named)) => vec![shown(name, named, &all)],
        None => Vec::new(),
    };
    print(context, &items, || "no context in use; using the install on this machine")
}

fn print(
    context: &Context,
    items: &[Shown<'_>],
    none: impl Fn() -> &'static str,
) -> anyhow::Result<Exit> {
    if context.output.print(context.terminal, &items)? {
        return Ok(Exit::Ok);
    }
    if items.is_empty() {
        context.terminal.note(none())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["CURRENT", "NAME", "URL", "ORG", "PROJECT"]);
    for one in items {
        table.row(vec![
            Cell::plain(if one.current { "*" } else { "" }),
            Cell::plain(one.name),
            Cell::plain(one.url),
            Cell::plain(one.org.unwrap_or_default()),
            Cell::plain(one.project.unwrap_or_default()),
        ]);
    }
    context.table(&table)?;
    Ok(Exit::Ok)
}

fn remove(name: &str, context: &Context) -> anyhow::Result<Exit> {
    let mut all = Contexts::read()?;
    all.get(name)?;
    all.contexts.remove(name);
    all.current.take_if(|current| current == name);
    all.write()?;
    context.terminal.note(&format!("removed context `{name}`; its token is still valid"))?;
    Ok(Exit::Ok)
}
