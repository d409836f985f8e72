//! `trueup provider`: where the people of the org sign in, and which of their groups have which role.

use trueup_api::provider::{Provider, ProviderGroup, ProviderRequest};
use trueup_model::provider::ProviderState;

use crate::clock;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, clean};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Let people sign in with an OpenID Connect provider, and give its groups roles
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the providers (the default)
    List,
    /// Show a provider: its domains, its groups, and whether it answers
    Get {
        /// Name or id (idp_…)
        provider: String,
    },
    /// Declare a provider, or change it
    Set(SetArgs),
    /// Check its domains and everybody it vouches for now
    Check {
        /// Name or id (idp_…)
        provider: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Delete a provider: everybody loses the role that it gave them
    Remove {
        /// Name or id (idp_…)
        provider: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Its name, such as okta
    name: String,
    /// Its issuer, such as https://id.example.com
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// The id that it gave to Trueup
    #[arg(long, value_name = "ID")]
    client_id: String,
    /// Read the secret that it gave to Trueup from stdin; without this the secret that is set stays
    #[arg(long)]
    secret: bool,
    /// A domain of email addresses that it vouches for (may be given more than once)
    #[arg(long, required = true, value_name = "DOMAIN")]
    domain: Vec<String>,
    /// A role for the members of a group, in the order in which they count; `*` is everybody
    #[arg(long, required = true, value_name = "GROUP=ROLE", value_parser = group)]
    group: Vec<(String, String)>,
    /// The claim with the groups of a person; the default is `groups`
    #[arg(long, value_name = "CLAIM")]
    groups_claim: Option<String>,
    /// Minutes that sessions outlive the last confirmation; the default is 60
    #[arg(long, value_name = "MINUTES")]
    outage_minutes: Option<u32>,
    /// Switch it off: its sessions end, and nobody can sign in with it
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    dry: DryRun,
}

fn group(text: &str) -> Result<(String, String), String> {
    let (group, role) = text.rsplit_once('=').ok_or("must be GROUP=ROLE, such as ops=admin")?;
    Ok((group.to_owned(), role.to_owned()))
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    match args.command.unwrap_or(Command::List) {
        Command::List => {
            let list = context.wait("reading the providers", client.provider_list()).await?;
            if !context.output.print(context.terminal, &list)? {
                context.table(&table(&list.items))?;
            }
        }
        Command::Get { provider } => {
            let reading = client.provider_get(&provider);
            show(&context.wait("reading the provider", reading).await?, context)?;
        }
        Command::Set(args) => return set(args, context, &client).await,
        Command::Check { provider, dry } => {
            let writing = dry.begin(&client);
            let checking = writing.client().provider_check(&provider);
            let checked = context.wait("requesting the check", checking).await?;
            if !writing.previewed(&format!("provider/{provider}"), context)? {
                show(&checked, context)?;
            }
        }
        Command::Remove { provider, dry } => {
            let writing = dry.begin(&client);
            let removing = writing.client().provider_delete(&provider);
            let removed = context.wait("deleting the provider", removing).await?;
            if writing.previewed(&format!("provider/{provider}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &removed)? {
                context.terminal.line(&format!("provider/{} is deleted", removed.name))?;
            }
        }
    }
    Ok(Exit::Ok)
}

async fn set(
    args: SetArgs,
    context: &Context,
    client: &trueup_api::Client,
) -> anyhow::Result<Exit> {
    let secret = if args.secret { Some(context.terminal.secret("Client secret: ")?) } else { None };
    let groups = args.group.into_iter().map(|(group, role)| ProviderGroup { group, role });
    let wanted = ProviderRequest {
        issuer: args.issuer,
        client_id: args.client_id,
        client_secret: secret,
        domains: args.domain,
        groups_claim: args.groups_claim,
        groups: groups.collect(),
        enabled: Some(!args.disabled),
        outage_minutes: args.outage_minutes,
    };
    let writing = args.dry.begin(client);
    let putting = writing.client().provider_put(&args.name, &wanted);
    let put = context.wait("declaring the provider", putting).await?;
    if !writing.previewed(&format!("provider/{}", args.name), context)? {
        show(&put, context)?;
    }
    Ok(Exit::Ok)
}

/// Prints a provider, and what is left to do.
fn show(provider: &Provider, context: &Context) -> anyhow::Result<()> {
    if context.output.print(context.terminal, provider)? {
        return Ok(());
    }
    let terminal = &context.terminal;
    terminal.line(&format!("provider/{} {}", provider.name, provider.state))?;
    terminal.line(&format!("  issuer        {}", clean(&provider.issuer)))?;
    terminal.line(&format!("  redirect URI  {}", clean(&provider.redirect_uri)))?;
    terminal.line(&format!("  people        {}", provider.people))?;
    if let Some(at) = provider.confirmed_at {
        terminal.line(&format!("  confirmed     {} ago", age(clock::now(), at)))?;
    }
    if let (Some(at), Some(why)) = (provider.failed_at, &provider.failure) {
        let ago = age(clock::now(), at);
        terminal.line(&format!("  failed        {ago} ago: {}", clean(why)))?;
    }
    for ProviderGroup { group, role } in &provider.groups {
        terminal.line(&format!("  group         {} as {role}", clean(group)))?;
    }
    for domain in &provider.domains {
        if domain.verified_at.is_some() {
            terminal.line(&format!("  domain        {} proved", domain.host))?;
        } else {
            let detail = domain.detail.as_deref().unwrap_or("not checked yet");
            terminal.line(&format!("  domain        {}: {}", domain.host, clean(detail)))?;
            terminal.line(&format!(
                "                publish the TXT record {} with the text {}",
                domain.record, domain.text
            ))?;
        }
    }
    Ok(())
}

fn table(items: &[Provider]) -> Table {
    let mut table = Table::new(&["NAME", "ISSUER", "STATE", "PEOPLE", "CONFIRMED", "ID"]);
    for provider in items {
        let paint = match provider.state {
            ProviderState::Answers => Paint::Good,
            ProviderState::Unavailable => Paint::Bad,
            ProviderState::Unused | ProviderState::Disabled => Paint::Faint,
        };
        let confirmed = provider.confirmed_at.map(|at| age(clock::now(), at)).unwrap_or_default();
        table.row(vec![
            Cell::plain(&provider.name),
            Cell::plain(&provider.issuer),
            Cell::new(paint, provider.state.into_str()),
            Cell::plain(&provider.people.to_string()),
            Cell::plain(&confirmed),
            Cell::plain(&provider.id),
        ]);
    }
    table
}
