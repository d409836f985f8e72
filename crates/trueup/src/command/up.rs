//! `trueup up`: start everything on this machine, say where to look, and stop it on Ctrl-C.

use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use trueup_local::{Progress, layout, supervise};
use trueup_model::crash;

use super::build_progress;
use crate::install::Install;
use crate::{logging, serve};
use trueup_cli::connect::connection::ClientFile;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::{Exit, Failure};
use trueup_cli::output::progress::Progress as Waiting;
use trueup_cli::output::terminal::Terminal;
use trueup_cli::secret::Secret;

/// Start Trueup on this machine: Postgres, Kubernetes, the API and the loops
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port on 127.0.0.1
    #[arg(long, env = "TRUEUP_PORT", default_value_t = 7410)]
    port: u16,
    /// Go on in the background once it is ready
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    cluster: serve::ClusterChoice,
    /// Use this Postgres instead of an embedded one; replicas of one Trueup share it
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<Secret>,
    /// The nodes of the local cluster: a real one, too, where this machine allows it, or only simulated ones
    #[arg(long, value_enum, default_value_t = Nodes::Real)]
    nodes: Nodes,
    /// Ask this name server for the proofs of domains, instead of those of this machine: ADDRESS or
    /// ADDRESS:PORT; may be given more than once
    #[arg(long, env = "TRUEUP_DNS_SERVER", value_name = "ADDRESS", value_delimiter = ',', value_parser = name_server)]
    dns_server: Vec<SocketAddr>,
    /// Start without the demo's projects and services
    #[arg(long)]
    no_demo: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Nodes {
    Real,
    Simulated,
}

/// Starting is a matter of seconds; building Kubernetes goes on afterwards.
const START_LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// Where DNS is served.
const DNS_PORT: u16 = 53;

/// Reads the address of a name server.
fn name_server(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.parse::<IpAddr>().map(|address| SocketAddr::from((address, DNS_PORT)));
    text.parse().or_else(|_| bare()).map_err(|_| {
        format!(
            "`{text}` is no address; write it like 192.0.2.53, 127.0.0.1:5353 or [2001:db8::53]:53"
        )
    })
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if let Some(cluster) = args.cluster.kubeconfig.as_ref().filter(|cluster| !cluster.is_file()) {
        let missing = format!("there is no kubeconfig at {}", cluster.display());
        return Err(Failure::new(Exit::Failed, missing)
            .hint("check the path, or leave --cluster out to use a local cluster")
            .into());
    }
    let install = Install::open(&context.data_dir)?;
    let Some(lock) = install.lock()? else {
        let client = other_answers(context, &install).await?;
        context.terminal.note("Trueup is already up here.")?;
        tell(context.terminal, &install, &client)?;
        return Ok(Exit::Ok);
    };
    if args.detach {
        drop(lock);
        return detach(&args, context, &install).await;
    }
    // What a killed run left must not be taken for the words of this one.
    std::fs::remove_file(ClientFile::path(install.dir())).ok();
    logging::start(&install.log_file())?;
    arm_crash()?;
    let own = supervise::Process::find(std::process::id());
    supervise::record(&own.context("this process cannot be found in /proc")?, &install.pid_file())?;
    let options = serve::Options {
        port: args.port,
        cluster: args.cluster,
        database: args.database_url,
        demo: !args.no_demo,
        simulated: args.nodes == Nodes::Simulated,
        name_servers: args.dns_server,
    };
    let progress = Progress::new();
    let stop = CancellationToken::new();
    let (ready_in, ready) = oneshot::channel::<ClientFile>();
    let announce = async {
        if let Ok(client) = ready.await {
            client.write(install.dir())?;
            tell(context.terminal, &install, &client)?;
        }
        anyhow::Ok(())
    };
    let serving = serve::run(&install, &options, &progress, ready_in, stop.clone());
    let (served, announced) = tokio::select! {
        ended = async { tokio::join!(Box::pin(serving), announce) } => ended,
        () = build_progress::tell(context.terminal, &progress) => (Ok(()), Ok(())),
        () = stop_on_signal(context.terminal, &stop) => (Ok(()), Ok(())),
    };
    std::fs::remove_file(install.pid_file()).ok();
    served.and(announced).map(|()| Exit::Ok)
}

/// Waits until the process that has the install answers: it may be starting right now.
async fn other_answers(context: &Context, install: &Install) -> anyhow::Result<ClientFile> {
    let answers = async {
        loop {
            if let Some(client) = ClientFile::read(install.dir())? {
                return anyhow::Ok(client);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let waiting = Waiting::new(context.terminal, "another `trueup up` that is starting here");
    waiting.wait(tokio::time::timeout(START_LIMIT, answers)).await.map_err(|_| {
        Failure::new(Exit::TimedOut, "another `trueup up` here did not get ready in time")
            .hint(format!("the log is {}", install.log_file().display()))
    })?
}

/// Starts this same command in the background and waits until it answers.
async fn detach(args: &Args, context: &Context, install: &Install) -> anyhow::Result<Exit> {
    // What an earlier run left must not be taken for the words of the new one.
    std::fs::remove_file(ClientFile::path(install.dir())).ok();
    let out = install.dir().join("log").join("up.log");
    let log = OpenOptions::new().create(true).write(true).truncate(true).open(&out)?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.arg("--data-dir").arg(install.dir()).arg("up").arg("--port").arg(args.port.to_string());
    if let Some(cluster) = &args.cluster.kubeconfig {
        command.arg("--cluster").arg(cluster.canonicalize().context("cannot find the kubeconfig")?);
    }
    for (asked, flag) in [(args.no_demo, "--no-demo"), (args.cluster.replaced, "--replace-cluster")]
    {
        if asked {
            command.arg(flag);
        }
    }
    if args.nodes == Nodes::Simulated {
        command.args(["--nodes", "simulated"]);
    }
    for server in &args.dns_server {
        command.arg("--dns-server").arg(server.to_string());
    }
    match &args.database_url {
        // Not as an argument: everybody on the machine could read it.
        Some(url) => command.env("DATABASE_URL", url.reveal()),
        None => command.env_remove("DATABASE_URL"),
    };
    command.stdout(log.try_clone()?).stderr(log);
    // A file of its own: the new process writes the install's pid file itself.
    let process = supervise::spawn(command, &out.with_extension("pid.json"))?;
    let answers = async {
        loop {
            if let Some(client) = ClientFile::read(install.dir())? {
                return anyhow::Ok(client);
            }
            if !process.is_alive() {
                let said = std::fs::read_to_string(&out).unwrap_or_default();
                let said = said.trim().trim_start_matches("error: ");
                let failure = Failure::new(Exit::Failed, format!("Trueup did not start: {said}"));
                return Err(failure
                    .hint(format!("the log is {}", install.log_file().display()))
                    .into());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let waiting = Waiting::new(context.terminal, "Trueup to answer");
    let client =
        waiting.wait(tokio::time::timeout(START_LIMIT, answers)).await.map_err(|_| {
            Failure::new(Exit::TimedOut, "Trueup did not answer in time")
                .hint(format!("the log is {}", install.log_file().display()))
        })??;
    tell(context.terminal, install, &client)?;
    Ok(Exit::Ok)
}

/// Says where everything is.
fn tell(terminal: Terminal, install: &Install, client: &ClientFile) -> std::io::Result<()> {
    let own = install.kubeconfig();
    let kubeconfig = client.kubeconfig.as_ref().unwrap_or(&own);
    let there =
        kubeconfig.exists() || trueup_local::kube::find_built(&layout::cache_dir()).is_some();
    let kubernetes = if there { "" } else { "  (being built once; `trueup status` shows how far)" };
    let data_dir = if install.dir() == layout::default_data_dir() {
        String::new()
    } else {
        format!(" --data-dir {}", install.dir().display())
    };
    let next = if client.project.is_some() {
        format!("trueup{data_dir} watch storefront --until healthy")
    } else {
        format!("trueup{data_dir} apply -f FILE")
    };
    if terminal.is_live() {
        // Whatever line was moving makes room.
        terminal.moving("")?;
    }
    terminal.line(&format!(
        "Trueup is up.\n\n  \
           API         {url}\n  \
           Token       {token}  (owner of the demo org; the commands below find it by themselves)\n  \
           Kubeconfig  {kubeconfig}{kubernetes}\n  \
           Operator    token in {operator}\n  \
           Log         {log}\n\n\
         Next:\n  \
           trueup{data_dir} get services\n  \
           {next}",
        url = client.url,
        token = client.token.reveal(),
        kubeconfig = kubeconfig.display(),
        operator = install.operator_token_file().display(),
        log = install.log_file().display(),
    ))
}

/// Asks for the end on Ctrl-C or SIGTERM; the rest ends by itself, parts last.
async fn stop_on_signal(terminal: Terminal, stop: &CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
    terminal.note("Stopping everything that was started here …").ok();
    std::future::pending().await
}

/// For tests of the bad days: `TRUEUP_CRASH_AT=point:hit` ends the process there.
fn arm_crash() -> anyhow::Result<()> {
    let Ok(armed) = std::env::var("TRUEUP_CRASH_AT") else {
        return Ok(());
    };
    let (point, hit) = armed.split_once(':').unwrap_or((&armed, "1"));
    crash::arm(point, hit.parse()?)
        .map_err(|point| anyhow::anyhow!("there is no crash point `{point}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_has_an_address_and_mostly_the_usual_port() {
        for (text, server) in [
            ("192.0.2.53", "192.0.2.53:53"),
            ("127.0.0.1:5353", "127.0.0.1:5353"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(name_server(text), Ok(server.parse().unwrap()));
        }
        for text in ["", "dns.example.org", "192.0.2.53:", "192.0.2.53:99999", "1.2.3"] {
            assert!(name_server(text).unwrap_err().contains("192.0.2.53"), "{text}");
        }
    }
}
