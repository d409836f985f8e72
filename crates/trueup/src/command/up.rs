//! `trueup up`: starts everything on this machine and stops it on Ctrl-C.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use trueup_local::{Progress, layout, supervise};
use trueup_model::crash;

use super::build_progress;
use crate::config::{self, Config, Flags};
use crate::install::{Install, Lock};
use crate::{logging, serve};
use trueup_cli::connect::connection::ClientFile;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::{Exit, Failure};
use trueup_cli::output::progress::Progress as Waiting;
use trueup_cli::output::terminal::Terminal;

/// Start Trueup on this machine: Postgres, Kubernetes, the API and the loops
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run in the background once ready
    #[arg(long)]
    detach: bool,
    /// The cluster was replaced: use the new one from now on and recreate everything there
    #[arg(long)]
    replace_cluster: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Startup takes seconds; the build of Kubernetes continues afterwards.
const START_LIMIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let config = config::load(&args.flags, &context.data_dir).valid()?;
    let install = Install::open(&context.data_dir)?;
    let lock = match install.lock()? {
        Some(lock) => lock,
        None => match wait_for_other(context, &install).await? {
            Other::Gone(lock) => lock,
            Other::Up(client) => {
                context.terminal.note("Trueup is already up here.")?;
                print_summary(context.terminal, &install, &client)?;
                return Ok(Exit::Ok);
            }
        },
    };
    if args.detach {
        drop(lock);
        return detach(&config, context, &install).await;
    }
    // A file left by a killed run must not be mistaken for this run's.
    ClientFile::remove(install.dir());
    logging::start(&install.log_file())?;
    arm_crash()?;
    let own = supervise::Process::find(std::process::id());
    supervise::record(&own.context("this process cannot be found in /proc")?, &install.pid_file())?;
    let progress = Progress::new();
    let stop = CancellationToken::new();
    let (ready_in, ready) = oneshot::channel::<ClientFile>();
    let announce = async {
        if let Ok(client) = ready.await {
            client.write(install.dir())?;
            print_summary(context.terminal, &install, &client)?;
        }
        anyhow::Ok(())
    };
    let options = serve::Options { config, replaced: args.replace_cluster };
    let serving = serve::run(&install, &options, &progress, ready_in, stop.clone());
    let (served, announced) = tokio::select! {
        ended = async { tokio::join!(Box::pin(serving), announce) } => ended,
        () = build_progress::show(context.terminal, &progress) => (Ok(()), Ok(())),
        () = stop_on_signal(context.terminal, &stop) => (Ok(()), Ok(())),
    };
    // Whoever listens on the port from now on must not get the token in this file.
    ClientFile::remove(install.dir());
    std::fs::remove_file(install.pid_file()).ok();
    served.and(announced).map(|()| Exit::Ok)
}

/// What became of the process that holds the lock of this install.
enum Other {
    /// It serves the install.
    Up(ClientFile),
    /// It ended.
    Gone(Lock),
}

/// Waits until the process that serves this install is ready, or has ended.
///
/// It may still be starting. And a killed process holds its lock until its last thread has ended,
/// which can be after the process itself is gone; its client file stays.
async fn wait_for_other(context: &Context, install: &Install) -> anyhow::Result<Other> {
    let answers = async {
        loop {
            if let Some(lock) = install.lock()? {
                return anyhow::Ok(Other::Gone(lock));
            }
            let recorded = std::fs::read_to_string(install.pid_file()).unwrap_or_default();
            let other = serde_json::from_str::<supervise::Process>(&recorded).ok();
            let is_alive = other.is_some_and(|other| other.is_alive());
            if let (true, Some(client)) = (is_alive, ClientFile::read(install.dir())?) {
                return Ok(Other::Up(client));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let waiting =
        Waiting::new(context.terminal, "waiting for another `trueup up` that is starting here");
    waiting.wait(tokio::time::timeout(START_LIMIT, answers)).await.map_err(|_| {
        Failure::new(
            Exit::TimedOut,
            "timed out waiting for another `trueup up` on this data directory",
        )
        .hint(format!("the log is {}", install.log_file().display()))
    })?
}

/// Starts the same command in the background and waits until it is ready.
async fn detach(config: &Config, context: &Context, install: &Install) -> anyhow::Result<Exit> {
    // A file left by an earlier run must not be mistaken for the new run's.
    ClientFile::remove(install.dir());
    let out = install.dir().join("log").join("up.log");
    let log = OpenOptions::new().create(true).write(true).truncate(true).open(&out)?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(foreground(std::env::args_os().skip(1)));
    if let Some(url) = &config.database {
        // Not as an argument: every user of the machine could read it.
        command.env("DATABASE_URL", url.reveal());
    }
    command.stdout(log.try_clone()?).stderr(log);
    // A file of its own: the new process writes the install's pid file itself.
    let process = supervise::spawn(command, &out.with_extension("pid.json"))?;
    let answers = async {
        loop {
            if let Some(client) = ClientFile::read(install.dir())? {
                return anyhow::Ok(client);
            }
            if !process.is_alive() {
                let output = std::fs::read_to_string(&out).unwrap_or_default();
                let output = output.trim().trim_start_matches("error: ");
                let failure = Failure::new(Exit::Failed, format!("Trueup did not start: {output}"));
                return Err(failure
                    .hint(format!("the log is {}", install.log_file().display()))
                    .into());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let waiting = Waiting::new(context.terminal, "waiting for Trueup");
    let client =
        waiting.wait(tokio::time::timeout(START_LIMIT, answers)).await.map_err(|_| {
            Failure::new(Exit::TimedOut, "timed out waiting for Trueup to start")
                .hint(format!("the log is {}", install.log_file().display()))
        })??;
    print_summary(context.terminal, install, &client)?;
    Ok(Exit::Ok)
}

/// The same arguments, to run in the foreground and without the database URL.
fn foreground(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = args;
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if text == "--database-url" {
            // Its value is the next argument.
            drop(args.next());
        } else if text != "--detach" && !text.starts_with("--database-url=") {
            kept.push(arg);
        }
    }
    kept
}

/// Prints addresses, files and next commands.
fn print_summary(
    terminal: Terminal,
    install: &Install,
    client: &ClientFile,
) -> std::io::Result<()> {
    let own = install.kubeconfig();
    let kubeconfig = client.kubeconfig.as_ref().unwrap_or(&own);
    let there =
        kubeconfig.exists() || trueup_local::kube::find_built(&layout::cache_dir()).is_some();
    let kubernetes =
        if there { "" } else { "  (being built once; `trueup status` shows the progress)" };
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
        // Clear the progress line.
        terminal.moving("")?;
    }
    terminal.line(&format!(
        "Trueup is up.\n\n  \
           API         {url}{public}\n  \
           Sign in     {sign_in}\n  \
           Token       {token}  (owner of the demo org; the commands below use it automatically)\n  \
           Kubeconfig  {kubeconfig}{kubernetes}\n  \
           Operator    token in {operator}\n  \
           Log         {log}\n\n\
         Next:\n  \
           trueup{data_dir} get services\n  \
           {next}",
        url = client.url,
        public = client.public_url.as_ref().map_or_else(String::new, |url| format!("  (for others: {url})")),
        sign_in = sign_in(install, client),
        token = client.token.reveal(),
        kubeconfig = kubeconfig.display(),
        operator = install.operator_token_file().display(),
        log = install.log_file().display(),
    ))
}

/// How a person signs in: with the demo's account, or by creating the first one.
fn sign_in(install: &Install, client: &ClientFile) -> String {
    let address = client.public_url.as_deref().unwrap_or(&client.url).trim_end_matches('/');
    match install.open_setup_code() {
        Some(code) => {
            format!("{address}/set-up#{}  (once: creates the first account)", code.reveal())
        }
        None if client.project.is_some() => {
            let password = install.owner_password_file();
            format!("{address}/ as {}, password in {}", serve::OWNER, password.display())
        }
        None => format!("{address}/"),
    }
}

/// Starts a graceful shutdown on Ctrl-C or SIGTERM.
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
    terminal.note("Shutting down …").ok();
    std::future::pending().await
}

/// For crash tests: `TRUEUP_CRASH_AT=point:hit` aborts the process there.
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
    fn background_process_gets_the_same_arguments_without_the_password() {
        let given =
            ["up", "--detach", "--port", "1", "--database-url", "x", "--database-url=y", "-v"];
        let kept = foreground(given.iter().map(OsString::from));
        assert_eq!(kept, ["up", "--port", "1", "-v"]);
    }
}
