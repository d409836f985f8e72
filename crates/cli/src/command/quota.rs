//! `trueup quota`: how much the org or a project may reserve, and where the limits come from.

use trueup_api::quota::{Amounts, Quota};
use trueup_model::quota::LimitSource;

use crate::command::catalog;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;

/// Show the quota of the org or of a project, and where its limits come from; or set it
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The project
    #[arg(long, value_name = "PROJECT")]
    of: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set limits; those that are not given stay (of the org: operators; of a project: owners)
    Set(Box<SetArgs>),
    /// Remove the quota of a project: that of the org holds (owners)
    Remove {
        /// The project
        #[arg(long, value_name = "PROJECT")]
        of: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The project; without it, the limits of the org are set
    #[arg(long, value_name = "PROJECT")]
    of: Option<String>,
    /// Services
    #[arg(long)]
    services: Option<i64>,
    /// Thousandths of a core over all pods
    #[arg(long, value_name = "MILLIS")]
    cpu_millis: Option<i64>,
    /// Mebibytes of memory over all pods
    #[arg(long, value_name = "MIB")]
    memory_mib: Option<i64>,
    /// Gibibytes of disk
    #[arg(long, value_name = "GIB")]
    storage_gib: Option<i64>,
    /// Whole GPUs
    #[arg(long)]
    gpus: Option<i64>,
    /// Projects of the org
    #[arg(long, conflicts_with = "of")]
    projects: Option<i64>,
    /// Endpoints over all projects of the org
    #[arg(long, conflicts_with = "of")]
    endpoints: Option<i64>,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        None => show(&read(args.of.as_deref(), context).await?, context),
        Some(Command::Set(args)) => set(*args, context).await,
        Some(Command::Remove { of: project, dry }) => {
            let client = context.connect()?.client;
            let writing = dry.begin(&client);
            let removing = writing.client().project_quota_delete(&project);
            let quota = context.wait("removing the quota", removing).await?;
            if writing.previewed(&format!("the quota of {project}"), context)? {
                return Ok(Exit::Ok);
            }
            show(&quota, context)
        }
    }
}

async fn read(project: Option<&str>, context: &Context) -> anyhow::Result<Quota> {
    let client = context.connect()?.client;
    Ok(match project {
        Some(of) => context.wait("reading the quota", client.project_quota_get(of)).await?,
        None => context.wait("reading the quota", client.quota_get()).await?,
    })
}

async fn set(args: SetArgs, context: &Context) -> anyhow::Result<Exit> {
    let limit = read(args.of.as_deref(), context).await?.limit;
    let wanted = Amounts {
        services: args.services.unwrap_or(limit.services),
        cpu_millis: args.cpu_millis.unwrap_or(limit.cpu_millis),
        memory_mib: args.memory_mib.unwrap_or(limit.memory_mib),
        storage_gib: args.storage_gib.unwrap_or(limit.storage_gib),
        gpus: args.gpus.unwrap_or(limit.gpus),
        projects: args.projects.unwrap_or(limit.projects),
        endpoints: args.endpoints.unwrap_or(limit.endpoints),
    };
    let client = context.connect()?.client;
    let writing = args.dry.begin(&client);
    let to = writing.client();
    let quota = match &args.of {
        Some(project) => {
            context.wait("setting the quota", to.project_quota_put(project, &wanted)).await?
        }
        None => context.wait("setting the quota", to.quota_put(&wanted)).await?,
    };
    if writing.previewed("the quota", context)? {
        return Ok(Exit::Ok);
    }
    show(&quota, context)
}

fn show(quota: &Quota, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print_item(context.terminal, quota)? {
        return Ok(Exit::Ok);
    }
    context.table(&catalog::quota(quota))?;
    context.terminal.note(source(quota.source))?;
    Ok(Exit::Ok)
}

fn source(source: LimitSource) -> &'static str {
    match source {
        LimitSource::Default => {
            "the limits are those of every new org; `trueup subscription` and operators change them"
        }
        LimitSource::Operator => {
            "an operator set the limits for this org; the next change of the subscription sets them again"
        }
        LimitSource::Subscription => {
            "the limits are those of the subscription: `trueup subscription`"
        }
        LimitSource::Project => "the project has limits of its own, below those of the org",
    }
}
