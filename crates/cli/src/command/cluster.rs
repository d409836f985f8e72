//! `trueup cluster`: cluster settings, for operators.

mod capacity;

use trueup_api::cluster::{ClusterGateway, ClusterRouting};

use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};
use crate::output::human::clean;

/// Show and change cluster settings (operators)
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show or set how a cluster is reached: host names, and the address of its nodes
    Routing(RoutingArgs),
    /// Show where the capacity of its nodes went, by day
    Capacity(capacity::Args),
}

#[derive(Debug, clap::Args)]
struct RoutingArgs {
    /// The cluster, by name or id
    cluster: String,
    /// Gateway for HTTPRoutes; without one, hosts become Ingress objects
    #[arg(long, value_name = "NAMESPACE/NAME")]
    gateway: Option<String>,
    /// Ingress class
    #[arg(long, value_name = "NAME")]
    ingress_class: Option<String>,
    /// Namespace that connections to services come from
    #[arg(long, value_name = "NAME")]
    from_namespace: Option<String>,
    /// cert-manager ClusterIssuer for certificates
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Host name or IP address at which the nodes are reached, for the addresses of endpoints
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// Clear the previous settings first
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Routing(args) => routing(args, context).await,
        Command::Capacity(args) => capacity::run(args, context).await,
    }
}

async fn routing(args: RoutingArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let RoutingArgs { cluster, gateway, clear, dry, .. } = args;
    let gateway = gateway.as_deref().map(read_gateway).transpose()?;
    let before = context.wait("reading the routing", client.cluster_routing_get(&cluster)).await?;
    let kept = if clear { ClusterRouting::default() } else { before.clone() };
    let wanted = ClusterRouting {
        gateway: gateway.or(kept.gateway),
        ingress_class: args.ingress_class.or(kept.ingress_class),
        from_namespace: args.from_namespace.or(kept.from_namespace),
        issuer: args.issuer.or(kept.issuer),
        address: args.address.or(kept.address),
    };
    if wanted == before {
        return show(&before, context);
    }
    let writing = dry.begin(&client);
    let setting = writing.client().cluster_routing_put(&cluster, &wanted);
    let stored = context.wait("setting the routing", setting).await?;
    if writing.previewed(&format!("cluster/{cluster} routing"), context)? {
        return Ok(Exit::Ok);
    }
    show(&stored, context)
}

fn read_gateway(text: &str) -> anyhow::Result<ClusterGateway> {
    let (namespace, name) = text.split_once('/').ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{text}` is not NAMESPACE/NAME"))
            .hint("write the gateway's namespace, a slash and its name, such as infra/public")
    })?;
    Ok(ClusterGateway { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn show(routing: &ClusterRouting, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print(context.terminal, routing)? {
        return Ok(Exit::Ok);
    }
    let hosts = match (&routing.gateway, &routing.ingress_class) {
        (Some(gateway), _) => {
            format!("HTTPRoutes on gateway {}/{}", gateway.namespace, gateway.name)
        }
        (None, Some(class)) => format!("Ingresses of class {class}"),
        (None, None) => "Ingresses of the cluster's default class".to_owned(),
    };
    let from = match &routing.from_namespace {
        Some(namespace) => format!("from namespace {namespace}"),
        None => "from everywhere".to_owned(),
    };
    let certificates = match &routing.issuer {
        Some(issuer) => format!("issued by {issuer}"),
        None => "none".to_owned(),
    };
    let nodes = match &routing.address {
        Some(address) => clean(address),
        None => "no address for endpoints; set one with --address".to_owned(),
    };
    context.terminal.line(&format!(
        "hosts: {hosts}; connections: {from}; certificates: {certificates}; nodes: {nodes}"
    ))?;
    Ok(Exit::Ok)
}
