//! `trueup token` and `trueup whoami`.

use jiff::Timestamp;
use trueup_api::Client;
use trueup_api::member::RoleInProject;
use trueup_api::token::{Token, TokenRequest};
use trueup_model::principal::Permission;

use crate::clock;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Create, list and revoke tokens
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a token and print it, once
    Create {
        /// Name of the token, such as the person or program that uses it
        name: String,
        /// viewer, billing, developer, admin or owner; of the platform: auditor or operator
        #[arg(long, default_value = "viewer")]
        role: String,
        /// Limit the token to this project, with the role viewer, developer or admin in it
        #[arg(long = "in", value_name = "PROJECT")]
        within: Option<String>,
        /// Limit the token to this permission of its role (may be given more than once)
        #[arg(long = "permission", value_name = "PERMISSION")]
        permissions: Vec<String>,
        /// Days until the token expires; default: never
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the tokens of the org, without their secrets
    List,
    /// Revoke a token immediately
    Revoke {
        /// Name or id (tok_…)
        #[arg(value_name = "TOKEN")]
        which: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

/// Show your identity and permissions
#[derive(Debug, clap::Args)]
pub struct WhoamiArgs {}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    match args.command {
        Command::Create { name, role, within: project, permissions, expires_in_days, dry } => {
            let writing = dry.begin(&client);
            let permissions = (!permissions.is_empty()).then_some(permissions);
            let wanted = TokenRequest {
                name,
                role,
                project,
                permissions,
                expires_in_days,
                expires_at: None,
            };
            let creating = writing.client().token_create(&wanted);
            let made = context.wait("creating the token", creating).await?;
            if writing.previewed(&format!("token/{}", wanted.name), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &made)? {
                let Token { name, role, id, .. } = &made.token;
                context
                    .terminal
                    .note(&format!("created token `{name}` ({role}, {id}), shown only once:"))?;
                context.terminal.line(made.secret.as_deref().unwrap_or_default())?;
            }
        }
        Command::List => return list(&client, context).await,
        Command::Revoke { which, dry } => {
            let writing = dry.begin(&client);
            let revoking = writing.client().token_revoke(&which);
            let revoked = context.wait("revoking the token", revoking).await?;
            if writing.previewed(&format!("token/{which}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &revoked)? {
                context
                    .terminal
                    .line(&format!("token `{}` ({}) is revoked", revoked.name, revoked.id))?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Lists the tokens of the org.
pub async fn list(client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let list = context.wait("reading the tokens", client.token_list()).await?;
    if !context.output.print(context.terminal, &list)? {
        let table = tokens(&list.items, clock::now());
        context.table(&table)?;
    }
    Ok(Exit::Ok)
}

pub async fn whoami(_args: &WhoamiArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let who = context.wait("waiting for Trueup", client.whoami()).await?;
    if context.output.print(context.terminal, &who)? {
        return Ok(Exit::Ok);
    }
    let org = who.org.map_or_else(|| "none (the platform)".to_owned(), |org| org.name);
    let mut table = Table::new(&["WHAT", "VALUE"]);
    for (what, value) in [
        ("name", who.name),
        ("role", who.role.to_string()),
        ("org", org),
        ("permissions", names(&who.permissions)),
        ("projects", in_projects(&who.projects)),
        ("expires", who.expires_at.map_or_else(|| "never".to_owned(), moment)),
        ("id", who.principal),
        ("server", client.base_url().to_owned()),
    ] {
        table.row(vec![Cell::new(Paint::Faint, what), Cell::plain(&value)]);
    }
    context.table(&table)?;
    Ok(Exit::Ok)
}

/// `admin in shop, viewer in blog`; empty without a role in a single project.
pub fn in_projects(roles: &[RoleInProject]) -> String {
    let one =
        |one: &RoleInProject| format!("{} in {}", one.role, one.name.as_deref().unwrap_or(&one.id));
    roles.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn names(permissions: &[Permission]) -> String {
    let names: Vec<&str> = permissions.iter().map(|one| one.into_str()).collect();
    names.join(", ")
}

fn tokens(items: &[Token], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["NAME", "ROLE", "PROJECT", "PERMISSIONS", "EXPIRES", "LAST USED", "ID"]);
    for token in items {
        let expires = match token.expires_at {
            None => Cell::plain("never"),
            Some(at) if at <= now => Cell::new(Paint::Bad, "expired"),
            Some(at) => Cell::plain(&format!("in {}", age(at, now))),
        };
        let used = token.last_used_at.map_or_else(|| "never".to_owned(), |at| used(now, at));
        table.row(vec![
            Cell::plain(&token.name),
            Cell::plain(token.role.into_str()),
            Cell::plain(token.project.as_deref().unwrap_or("all")),
            Cell::new(Paint::Faint, &names(&token.permissions)),
            expires,
            Cell::plain(&used),
            Cell::plain(&token.id),
        ]);
    }
    table
}

/// The time of use is recorded at most once an hour, so it is not shown more precisely.
fn used(now: Timestamp, at: Timestamp) -> String {
    let hours = now.duration_since(at).as_hours();
    if hours < 2 { "recently".to_owned() } else { format!("{} ago", age(now, at)) }
}

#[cfg(test)]
mod tests {
    use trueup_model::principal::Role;

    use super::*;
    use crate::output::style::Style;

    #[test]
    fn tokens_are_listed_with_expiry_and_last_use() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let token = |name: &str, expires_at: Option<&str>, last_used_at: Option<&str>| Token {
            id: "tok_1".to_owned(),
            name: name.to_owned(),
            role: Role::Viewer,
            project: (name == "b").then(|| "shop".to_owned()),
            permissions: vec![Permission::Read],
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
NAME   ROLE     PROJECT   PERMISSIONS   EXPIRES   LAST USED   ID
a      viewer   all       read          never     never       tok_1
b      viewer   shop      read          in 3d     recently    tok_1
c      viewer   all       read          expired   2d ago      tok_1"
        );
    }
}
