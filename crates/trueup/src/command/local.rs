//! `trueup local`: the install on this machine.

use trueup_local::{Progress, kube, layout};

use super::build_progress;
use crate::install::Install;
use trueup_cli::connect::connection::ClientFile;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::{Exit, Failure};

/// Inspect and maintain the install on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the path of the local cluster's kubeconfig
    Kubeconfig,
    /// Print the path of the operator's token file
    OperatorToken,
    /// Print the path of the file with the demo owner's password
    OwnerPassword,
    /// Build the local Kubernetes ahead of time
    Build,
    /// Create a new secrets key; a running Trueup re-encrypts every org's key with it
    RotateKey,
}

pub(crate) async fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Kubeconfig => kubeconfig(context),
        Command::OperatorToken => secret_file(context, "operator.token", "operator token"),
        Command::OwnerPassword => secret_file(context, "owner.password", "demo owner"),
        Command::Build => build(context).await,
        Command::RotateKey => rotate_key(context),
    }
}

fn kubeconfig(context: &Context) -> anyhow::Result<Exit> {
    let chosen = ClientFile::read(&context.data_dir)?.and_then(|client| client.kubeconfig);
    if let Some(chosen) = chosen {
        let message = format!("this Trueup uses the cluster of {}", chosen.display());
        return Err(Failure::new(Exit::NotFound, message)
            .hint("use that kubeconfig; this install has no local cluster")
            .into());
    }
    let path = Install::open(&context.data_dir)?.kubeconfig();
    if !path.exists() {
        let failure = Failure::new(Exit::NotFound, "there is no local cluster yet");
        return Err(failure.hint("run `trueup up`; `trueup status` shows the progress").into());
    }
    context.terminal.line(&path.display().to_string())?;
    Ok(Exit::Ok)
}

/// Prints the path of a file that `trueup up` created.
fn secret_file(context: &Context, name: &str, what: &str) -> anyhow::Result<Exit> {
    let path = context.data_dir.join(name);
    if !path.exists() {
        let message = format!("there is no {what} in this data directory");
        return Err(Failure::new(Exit::NotFound, message)
            .hint("run `trueup up`, or pass the data directory with --data-dir")
            .into());
    }
    context.terminal.line(&path.display().to_string())?;
    Ok(Exit::Ok)
}

async fn build(context: &Context) -> anyhow::Result<Exit> {
    let cache = layout::cache_dir();
    let progress = Progress::new();
    let binaries = match kube::find_built(&cache) {
        Some(binaries) => binaries,
        None => tokio::select! {
            built = kube::build(&cache, &progress) => built?,
            () = build_progress::show(context.terminal, &progress) => return Ok(Exit::Failed),
        },
    };
    context.terminal.line(&format!("Kubernetes is built: {}", binaries.kube.display()))?;
    Ok(Exit::Ok)
}

fn rotate_key(context: &Context) -> anyhow::Result<Exit> {
    let (number, path) = Install::open(&context.data_dir)?.new_secrets_key()?;
    context.terminal.line(&format!("secrets key {number}: {}", path.display()))?;
    context.terminal.note(
        "back it up, and copy it to the other replicas: Trueup uses it within seconds, and \
         re-encrypts every org's key with it",
    )?;
    Ok(Exit::Ok)
}
