//! `trueup cluster`: what operators say about a cluster.

use trueup_api::cluster::{ClusterGateway, ClusterRouting};

use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};

/// Look after a cluster; for operators
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show how host names come into a cluster, or say it
    Routing(RoutingArgs),
}

#[derive(Debug, clap::Args)]
struct RoutingArgs {
    /// The cluster, by name or id
    cluster: String,
    /// The gateway that routes hang from; without one, hosts are Ingress objects
    #[arg(long, value_name = "NAMESPACE/NAME")]
    gateway: Option<String>,
    /// Which ingress controller takes them
    #[arg(long, value_name = "NAME")]
    ingress_class: Option<String>,
    /// The namespace that connections come from
    #[arg(long, value_name = "NAME")]
    from_namespace: Option<String>,
    /// The ClusterIssuer of cert-manager that signs certificates
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Forget first what was said before
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Routing(args) => routing(args, context).await,
    }
}

async fn routing(args: RoutingArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let RoutingArgs { cluster, gateway, ingress_class, from_namespace, issuer, clear, dry } = args;
    let gateway = gateway.as_deref().map(read_gateway).transpose()?;
    let before = context.ask("reading the routing", client.cluster_routing_get(&cluster)).await?;
    let kept = if clear { ClusterRouting::default() } else { before.clone() };
    let wanted = ClusterRouting {
        gateway: gateway.or(kept.gateway),
        ingress_class: ingress_class.or(kept.ingress_class),
        from_namespace: from_namespace.or(kept.from_namespace),
        issuer: issuer.or(kept.issuer),
    };
    if wanted == before {
        return show(&before, context);
    }
    let writing = dry.begin(&client);
    let saying = writing.client().cluster_routing_put(&cluster, &wanted);
    let said = context.ask("saying it", saying).await?;
    if writing.previewed(&format!("cluster/{cluster} routing"), context)? {
        return Ok(Exit::Ok);
    }
    show(&said, context)
}

fn read_gateway(text: &str) -> anyhow::Result<ClusterGateway> {
    let (namespace, name) = text.split_once('/').ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{text}` does not say where the gateway is"))
            .hint("write it like infra/public: its namespace, a slash, its name")
    })?;
    Ok(ClusterGateway { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn show(routing: &ClusterRouting, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print(context.terminal, routing)? {
        return Ok(Exit::Ok);
    }
    let way = match (&routing.gateway, &routing.ingress_class) {
        (Some(gateway), _) => {
            format!("HTTPRoutes at the gateway {}/{}", gateway.namespace, gateway.name)
        }
        (None, Some(class)) => format!("Ingresses of the class {class}"),
        (None, None) => "Ingresses of the cluster's own choice".to_owned(),
    };
    let from = match &routing.from_namespace {
        Some(namespace) => format!("from the namespace {namespace}"),
        None => "from everywhere".to_owned(),
    };
    let signed = match &routing.issuer {
        Some(issuer) => format!("certificates are signed by {issuer}"),
        None => "there are no certificates".to_owned(),
    };
    context.terminal.line(&format!("hosts are {way}; connections come {from}; {signed}"))?;
    Ok(Exit::Ok)
}
