//! `trueup members` and `trueup invite`.

use trueup_api::Client;
use trueup_api::invitation::{Invitation, InvitationRequest};
use trueup_api::member::{Member, MemberRequest};
use trueup_model::principal::Role;

use crate::clock;
use crate::command::token::in_projects;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, moment};
use crate::output::table::{Cell, Table};

/// List members, change their roles and remove them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the members (the default)
    List,
    /// Give a member another role
    Role {
        /// Address or id (usr_…)
        member: String,
        /// member, viewer, billing, developer, admin or owner; of the platform: auditor or operator
        role: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Give a member a role in one project, besides the one in the org
    Grant {
        /// Address or id (usr_…)
        member: String,
        /// viewer, developer or admin
        role: String,
        /// Name or id of the project
        #[arg(long = "in", value_name = "PROJECT")]
        within: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Take the role that a member has in one project
    Revoke {
        /// Address or id (usr_…)
        member: String,
        /// Name or id of the project
        #[arg(long = "in", value_name = "PROJECT")]
        within: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Remove a member at once, with the tokens that they created
    Remove {
        /// Address or id (usr_…)
        member: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the open invitations
    Invitations,
    /// Revoke an open invitation
    Uninvite {
        /// Id (ivt_…)
        invitation: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

/// Invite somebody into the org and print the link, once
#[derive(Debug, clap::Args)]
pub struct InviteArgs {
    /// Address of the person
    email: String,
    /// member, viewer, billing, developer, admin or owner; of the platform: auditor or operator
    #[arg(long, default_value = "developer")]
    role: String,
    /// Offer the role in this project alone: viewer, developer or admin
    #[arg(long = "in", value_name = "PROJECT")]
    within: Option<String>,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    match args.command.unwrap_or(Command::List) {
        Command::List => return list(&client, context).await,
        Command::Role { member, role, dry } => {
            let (writing, wanted) = (dry.begin(&client), MemberRequest { role });
            let putting = writing.client().member_put(&member, &wanted);
            let put = context.wait("changing the role", putting).await?;
            if writing.previewed(&format!("member/{member}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &put)? {
                context
                    .terminal
                    .line(&format!("{} ({}) is {} now", put.name, put.email, put.role))?;
            }
        }
        Command::Grant { member, role, within: project, dry } => {
            let (writing, wanted) = (dry.begin(&client), MemberRequest { role });
            let putting = writing.client().project_role_put(&member, &project, &wanted);
            let put = context.wait("giving the role", putting).await?;
            if writing.previewed(&format!("member/{member}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &put)? {
                let roles = in_projects(&put.projects);
                context.terminal.line(&format!("{} ({}) is {roles} now", put.name, put.email))?;
            }
        }
        Command::Revoke { member, within: project, dry } => {
            let writing = dry.begin(&client);
            let taking = writing.client().project_role_delete(&member, &project);
            let row = context.wait("taking the role", taking).await?;
            if writing.previewed(&format!("member/{member}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &row)? {
                let line = format!("{} ({}) has no role in {project} now", row.name, row.email);
                context.terminal.line(&line)?;
            }
        }
        Command::Remove { member, dry } => {
            let writing = dry.begin(&client);
            let removing = writing.client().member_delete(&member);
            let removed = context.wait("removing the member", removing).await?;
            if writing.previewed(&format!("member/{member}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &removed)? {
                context
                    .terminal
                    .line(&format!("{} ({}) is removed", removed.name, removed.email))?;
            }
        }
        Command::Invitations => {
            let list = context.wait("reading the invitations", client.invitation_list()).await?;
            if !context.output.print(context.terminal, &list)? {
                let table = invitations(&list.items);
                context.table(&table)?;
            }
        }
        Command::Uninvite { invitation, dry } => {
            let writing = dry.begin(&client);
            let revoking = writing.client().invitation_revoke(&invitation);
            let revoked = context.wait("revoking the invitation", revoking).await?;
            if writing.previewed(&format!("invitation/{invitation}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &revoked)? {
                let line = format!("the invitation of {} is revoked", revoked.email);
                context.terminal.line(&line)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Lists the members of the org.
pub async fn list(client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let list = context.wait("reading the members", client.member_list()).await?;
    if !context.output.print(context.terminal, &list)? {
        context.table(&members(&list.items))?;
    }
    Ok(Exit::Ok)
}

pub async fn invite(args: InviteArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let writing = args.dry.begin(&client);
    let wanted = InvitationRequest { email: args.email, role: args.role, project: args.within };
    let made = context.wait("inviting", writing.client().invitation_create(&wanted)).await?;
    if writing.previewed(&format!("invitation/{}", wanted.email), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &made)? {
        let Invitation { email, role, project, expires_at, .. } = &made.invitation;
        let until = moment(*expires_at);
        let role = in_scope(*role, project.as_deref());
        context
            .terminal
            .note(&format!("invited {email} as {role} until {until}; the link, once:"))?;
        let code = made.code.as_deref().unwrap_or_default();
        context.terminal.line(&format!("{}/invitation#{code}", client.base_url()))?;
    }
    Ok(Exit::Ok)
}

/// A role, and the only project that it is for.
fn in_scope(role: Role, project: Option<&str>) -> String {
    project.map_or_else(|| role.to_string(), |project| format!("{role} in {project}"))
}

fn members(items: &[Member]) -> Table {
    let mut table = Table::new(&["NAME", "EMAIL", "ROLE", "PROJECTS", "AGE", "ID"]);
    for member in items {
        table.row(vec![
            Cell::plain(&member.name),
            Cell::plain(&member.email),
            Cell::plain(member.role.into_str()),
            Cell::plain(&in_projects(&member.projects)),
            Cell::plain(&age(clock::now(), member.joined_at)),
            Cell::plain(&member.id),
        ]);
    }
    table
}

fn invitations(items: &[Invitation]) -> Table {
    let mut table = Table::new(&["EMAIL", "ROLE", "EXPIRES", "ID"]);
    for invitation in items {
        table.row(vec![
            Cell::plain(&invitation.email),
            Cell::plain(&in_scope(invitation.role, invitation.project.as_deref())),
            Cell::plain(&moment(invitation.expires_at)),
            Cell::plain(&invitation.id),
        ]);
    }
    table
}
