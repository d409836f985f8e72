//! The files of one server: data, password, socket, log.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::{Account, DATA};
use super::socket::{PORT, Socket};
use super::{Error, PART};
use crate::files::{self, At};
use crate::progress::Progress;

#[derive(Debug)]
pub(super) struct Cluster {
    dir: PathBuf,
    durable: bool,
    account: Account,
    socket: Socket,
}

impl Cluster {
    pub(super) fn new(dir: PathBuf, durable: bool, account: Account) -> Self {
        let socket = Socket::new(&dir);
        Self { dir, durable, account, socket }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.join(DATA)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("postgres.log")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.dir.join(super::PID_FILE)
    }

    fn password_file(&self) -> PathBuf {
        self.dir.join("password")
    }

    /// The administrator's password.
    pub(super) fn password(&self) -> Result<String, Error> {
        let path = self.password_file();
        Ok(std::fs::read_to_string(&path).at("read", &path)?.trim().to_owned())
    }

    /// Creates the data directory, once. It is created under another name first, so an interrupted
    /// attempt is never mistaken for a complete one.
    pub(super) async fn initialise(
        &self,
        programs: &Path,
        progress: &Progress,
    ) -> Result<(), Error> {
        if self.data().is_dir() {
            return Ok(());
        }
        progress.begin(PART, "creating the data directory");
        let attempt = self.dir.join("data.new");
        files::remove_dir_if_there(&attempt)?;
        files::make_dir(&attempt, 0o700)?;
        self.account.give(&attempt)?;
        // The account must read the file for initdb; root can read it anyway.
        files::write_private(&self.password_file(), random_password()?.as_bytes())?;
        self.account.give(&self.password_file())?;

        let mut command = Command::new(programs.join("initdb"));
        command
            .arg("--pgdata")
            .arg(&attempt)
            .arg("--pwfile")
            .arg(self.password_file())
            .args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8"])
            .args(["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"])
            .arg("--no-instructions");
        if !self.durable {
            command.arg("--no-sync");
        }
        self.prepare(&mut command);
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let program = programs.join("initdb");
        let output = command.output().await.at("run", &program)?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Initdb { output });
        }
        Ok(std::fs::rename(&attempt, self.data()).at("create", &self.data())?)
    }

    /// The command line of the server. Settings are here and not in `postgresql.conf`, so that a
    /// new version of trueup can change them without editing a file that the user may own.
    pub(super) fn command(&self, programs: &Path) -> Result<Command, Error> {
        let mut settings = vec![
            // No TCP port.
            ("listen_addresses", String::new()),
            ("port", PORT.to_string()),
            ("unix_socket_directories", self.socket.setting()),
            ("unix_socket_permissions", "0700".to_owned()),
            ("max_connections", "200".to_owned()),
        ];
        if !self.durable {
            let unsafe_but_fast = ["fsync", "synchronous_commit", "full_page_writes"];
            settings.extend(unsafe_but_fast.map(|name| (name, "off".to_owned())));
        }

        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.log())
            .at("open", &self.log())?;
        let errors = log.try_clone().at("open", &self.log())?;
        let mut command = Command::new(programs.join("postgres"));
        command.arg("-D").arg(self.data());
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdout(log).stderr(errors);
        self.prepare(&mut command);
        Ok(command)
    }

    /// Clears the environment: `PG*` variables and locales would change the behaviour of Postgres,
    /// and every process of the same account can read the environment.
    fn prepare(&self, command: &mut Command) {
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir(&self.dir);
        self.account.run(command);
    }
}

fn random_password() -> Result<String, Error> {
    let mut bytes = [0_u8; 24];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
