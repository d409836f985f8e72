//! `--yes`, shared by every command that asks before it writes.

use crate::failure::{Exit, Failure};
use crate::output::terminal::Terminal;

/// The `--yes` flag.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Confirmation {
    /// Do not ask for confirmation; required where there is no terminal to ask on
    #[arg(short, long)]
    yes: bool,
}

impl Confirmation {
    /// Returns if the user agrees, and otherwise an error that ends the command.
    ///
    /// Without a terminal the command cannot ask, and silence is not consent: only `--yes` is.
    /// `operation` completes the sentence "refusing to …".
    pub fn require(
        self,
        operation: &str,
        question: &str,
        terminal: Terminal,
    ) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        match terminal.confirm(question)? {
            Some(true) => Ok(()),
            Some(false) => {
                let message = format!("did not {operation}: not confirmed");
                Err(Failure::new(Exit::Failed, message).hint("answer y, or pass --yes").into())
            }
            None => {
                let message = format!("refusing to {operation} without confirmation: pass --yes");
                Err(Failure::new(Exit::Usage, message).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::explain;

    #[test]
    fn without_a_terminal_only_the_flag_confirms() {
        let require = |yes: bool| {
            Confirmation { yes }.require("delete project games", "Delete it?", Terminal::plain())
        };
        assert!(require(true).is_ok());
        let (exit, message, _) = explain(&require(false).unwrap_err());
        assert_eq!(exit, Exit::Usage);
        assert_eq!(message, "refusing to delete project games without confirmation: pass --yes");
    }
}
