//! `trueup token` and `trueup whoami`: what calls are made with.

use jiff::Timestamp;
use trueup_api::token::{Token, TokenRequest};

use crate::clock;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Make, list and revoke tokens
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a token and print it, this once
    Create {
        /// Who or what will hold it
        name: String,
        /// viewer, developer, owner, or operator
        #[arg(long, default_value = "viewer")]
        role: String,
        /// The only permissions it shall have of its role (may be given more than once)
        #[arg(long = "permission", value_name = "PERMISSION")]
        permissions: Vec<String>,
        /// In how many days it ends; never when left out
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the tokens of the org; nobody ever sees their secrets again
    List,
    /// Revoke a token: it is worth nothing from now on
    Revoke {
        /// Its name, or its id (tok_…)
        #[arg(value_name = "TOKEN")]
        which: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

/// Show who you are to Trueup, and what you may do
#[derive(Debug, clap::Args)]
pub struct WhoamiArgs {}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    match args.command {
        Command::Create { name, role, permissions, expires_in_days, dry } => {
            let writing = dry.begin(&client);
            let permissions = (!permissions.is_empty()).then_some(permissions);
            let wanted =
                TokenRequest { name, role, permissions, expires_in_days, expires_at: None };
            let making = writing.client().token_create(&wanted);
            let made = context.ask("making the token", making).await?;
            if writing.previewed(&format!("token/{}", wanted.name), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &made)? {
                let Token { name, role, id, .. } = &made.token;
                context
                    .terminal
                    .note(&format!("token `{name}` ({role}, {id}); it is shown this once:"))?;
                context.terminal.line(made.secret.as_deref().unwrap_or_default())?;
            }
        }
        Command::List => {
            let list = context.ask("reading the tokens", client.token_list()).await?;
            if !context.output.print(context.terminal, &list)? {
                let table = tokens(&list.items, clock::now());
                context.terminal.line(&table.render(context.terminal.style()))?;
            }
        }
        Command::Revoke { which, dry } => {
            let writing = dry.begin(&client);
            let revoking = writing.client().token_revoke(&which);
            let gone = context.ask("revoking the token", revoking).await?;
            if writing.previewed(&format!("token/{which}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &gone)? {
                context
                    .terminal
                    .line(&format!("token `{}` ({}) is revoked", gone.name, gone.id))?;
            }
        }
    }
    Ok(Exit::Ok)
}

pub async fn whoami(_args: &WhoamiArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let who = context.ask("Trueup to answer", client.whoami()).await?;
    if context.output.print(context.terminal, &who)? {
        return Ok(Exit::Ok);
    }
    let org = who.org.map_or_else(|| "none (the platform)".to_owned(), |org| org.name);
    let mut table = Table::new(&["WHAT", "VALUE"]);
    for (what, value) in [
        ("name", who.name),
        ("role", who.role),
        ("org", org),
        ("permissions", who.permissions.join(", ")),
        ("ends", who.expires_at.map_or_else(|| "never".to_owned(), moment)),
        ("token", who.token),
        ("at", client.base_url().to_owned()),
    ] {
        table.row(vec![Cell::new(Paint::Faint, what), Cell::plain(&value)]);
    }
    context.terminal.line(&table.render(context.terminal.style()))?;
    Ok(Exit::Ok)
}

fn tokens(items: &[Token], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "ROLE", "PERMISSIONS", "ENDS", "LAST USED", "ID"]);
    for token in items {
        let ends = match token.expires_at {
            None => Cell::plain("never"),
            Some(at) if at <= now => Cell::new(Paint::Bad, "is over"),
            Some(at) => Cell::plain(&format!("in {}", age(at, now))),
        };
        let used = token.last_used_at.map_or_else(|| "never".to_owned(), |at| used(now, at));
        table.row(vec![
            Cell::plain(&token.name),
            Cell::plain(&token.role),
            Cell::new(Paint::Faint, &token.permissions.join(", ")),
            ends,
            Cell::plain(&used),
            Cell::plain(&token.id),
        ]);
    }
    table
}

/// The time is noted once an hour, so nothing finer is said.
fn used(now: Timestamp, at: Timestamp) -> String {
    let hours = now.duration_since(at).as_hours();
    if hours < 2 { "lately".to_owned() } else { format!("{} ago", age(now, at)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::Style;

    #[test]
    fn tokens_are_listed_with_what_matters() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let token = |name: &str, expires_at: Option<&str>, last_used_at: Option<&str>| Token {
            id: "tok_1".to_owned(),
            name: name.to_owned(),
            role: "viewer".to_owned(),
            permissions: vec!["read".to_owned()],
            created_at: now,
            expires_at: expires_at.map(|at| at.parse().unwrap()),
            last_used_at: last_used_at.map(|at| at.parse().unwrap()),
        };
        let items = [
            token("a", None, None),
            token("b", Some("2026-01-13T00:00:00Z"), Some("2026-01-09T23:00:00Z")),
            token("c", Some("2026-01-10T00:00:00Z"), Some("2026-01-08T00:00:00Z")),
        ];
        assert_eq!(
            tokens(&items, now).render(Style::new(false)),
            "\
NAME   ROLE     PERMISSIONS   ENDS      LAST USED   ID
a      viewer   read          never     never       tok_1
b      viewer   read          in 3d     lately      tok_1
c      viewer   read          is over   2d ago      tok_1"
        );
    }
}
