//! Command failures: a message, a hint and a stable exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use trueup_api::client::ClientError;
use trueup_api::problem::Code;

use crate::output::terminal::Terminal;

/// The exit status of a command. `trueup --help` documents the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok,
    /// The command failed.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The named object does not exist.
    NotFound,
    /// A wait timed out.
    TimedOut,
    /// The server is unreachable.
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::TimedOut => 4,
            Exit::Unreachable => 5,
        })
    }
}

/// An error with its exit code and an optional hint.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Adds a hint: what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit code, message and hint of an error.
pub fn explain(error: &anyhow::Error) -> (Exit, String, Option<String>) {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return (failure.exit, failure.message.clone(), failure.hint.clone());
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return (exit_of(error), error.summary(), error.advice().map(str::to_owned));
    }
    (Exit::Failed, format!("{error:#}"), None)
}

fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Unreachable { .. } => Exit::Unreachable,
        ClientError::Problem(_) if error.code() == Some(Code::NotFound) => Exit::NotFound,
        ClientError::Problem(_) | ClientError::Protocol(_) => Exit::Failed,
    }
}

/// Prints an error to stderr and returns its exit code. A closed pipe is not an error.
pub fn report(error: &anyhow::Error, terminal: Terminal) -> Exit {
    let closed = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return Exit::Ok;
    }
    let (exit, message, hint) = explain(error);
    // If stderr is closed too, only the exit code is left.
    match terminal.error(&message, hint.as_deref()) {
        Ok(()) | Err(_) => exit,
    }
}

#[cfg(test)]
mod tests {
    use trueup_api::Problem;

    use super::*;

    #[test]
    fn errors_have_the_documented_exit_codes() {
        let problem =
            |code| anyhow::Error::from(ClientError::Problem(Box::new(Problem::new(code, ""))));
        assert_eq!(explain(&problem(Code::NotFound)).0, Exit::NotFound);
        assert_eq!(explain(&problem(Code::Internal)).0, Exit::Failed);
        assert_eq!(explain(&anyhow::anyhow!("x")).0, Exit::Failed);
        let failure = Failure::new(Exit::TimedOut, "late").hint("wait longer");
        let (exit, message, hint) = explain(&failure.into());
        assert_eq!(
            (exit, message.as_str(), hint.as_deref()),
            (Exit::TimedOut, "late", Some("wait longer"))
        );
    }

    #[test]
    fn closed_pipe_exits_with_success() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(report(&error, Terminal::plain()), Exit::Ok);
    }
}
