//! Writes to stdout and stderr.
//!
//! Results go to stdout; hints, progress and errors go to stderr, so that a pipe only gets results.
//! Writes return their error: a closed pipe must end a command quietly, and `println!` would panic.

use std::io::{self, BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use trueup_model::secret::SecretValue;

use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// Stdout and stderr with their styles.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    out: Style,
    err: Style,
    live: bool,
}

impl Terminal {
    /// The process's terminal; colour only where the output is a terminal.
    pub fn new(no_color: bool) -> Self {
        let color = !no_color;
        let live = io::stderr().is_terminal();
        Self {
            out: Style::new(color && io::stdout().is_terminal()),
            err: Style::new(color && live),
            live,
        }
    }

    /// Without colour and progress lines.
    #[cfg(test)]
    pub const fn plain() -> Self {
        Self { out: Style::new(false), err: Style::new(false), live: false }
    }

    /// The style of what goes to stdout.
    pub const fn style(self) -> Style {
        self.out
    }

    /// Whether stderr is a terminal, so that progress lines can be drawn.
    pub const fn is_live(self) -> bool {
        self.live
    }

    /// How many characters a line of stdout has, if it is a terminal.
    #[expect(clippy::unused_self, reason = "all questions about stdout go through the terminal")]
    pub fn width(self) -> Option<usize> {
        let out = io::stdout();
        let size = out.is_terminal().then(|| tcgetwinsize(&out).ok()).flatten()?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    /// Writes text with its line end to stdout.
    pub fn line(self, text: &str) -> io::Result<()> {
        self.raw(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Writes bytes to stdout as they are.
    #[expect(clippy::unused_self, reason = "all writes to stdout go through the terminal")]
    pub fn raw(self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Writes a line about the result to stderr.
    pub fn note(self, text: &str) -> io::Result<()> {
        writeln!(io::stderr().lock(), "{}", self.err.paint(Paint::Faint, text))
    }

    /// Writes an error to stderr.
    pub fn error(self, message: &str, hint: Option<&str>) -> io::Result<()> {
        let mut err = io::stderr().lock();
        let lines: Vec<String> = message.lines().map(clean).collect();
        writeln!(err, "{} {}", self.err.paint(Paint::Bad, "error:"), lines.join("\n"))?;
        if let Some(hint) = hint {
            writeln!(err, "  {} {hint}", self.err.paint(Paint::Strong, "hint:"))?;
        }
        Ok(())
    }

    /// Writes a progress line that replaces the previous one. Only for live terminals.
    pub fn moving(self, text: &str) -> io::Result<()> {
        let mut err = io::stderr().lock();
        write!(err, "\r\u{1b}[2K{}", self.err.paint(Paint::Faint, text))?;
        err.flush()
    }

    /// Reads one line with a secret from stdin. On a terminal the prompt is shown, and the line is not.
    pub fn secret(self, prompt: &str) -> io::Result<SecretValue> {
        let stdin = io::stdin();
        let mut line = String::new();
        if stdin.is_terminal() {
            let mut err = io::stderr().lock();
            write!(err, "{prompt}: ")?;
            err.flush()?;
            let before = tcgetattr(&stdin)?;
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &hidden)?;
            let read = stdin.lock().read_line(&mut line);
            tcsetattr(&stdin, OptionalActions::Now, &before)?;
            writeln!(err)?;
            read?;
        } else {
            stdin.lock().read_line(&mut line)?;
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned().into())
    }

    /// Asks for confirmation; `None` if stdin or stderr is not a terminal.
    pub fn confirm(self, question: &str) -> io::Result<Option<bool>> {
        if !self.live || !io::stdin().is_terminal() {
            return Ok(None);
        }
        let mut err = io::stderr().lock();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
    }
}
