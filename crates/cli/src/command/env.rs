//! `trueup env`: the address and token that commands use, for a shell or another program.

use crate::connect::context::Context;
use crate::failure::Exit;

/// Print the address and token in use, as lines for a shell: eval "$(trueup env)"
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let chosen = context.credentials()?;
    context.terminal.line(&format!(
        "export TRUEUP_URL={}\nexport TRUEUP_TOKEN={}",
        quoted(&chosen.url),
        quoted(chosen.token.reveal())
    ))?;
    Ok(Exit::Ok)
}

/// Quotes text as one shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_shell_word() {
        assert_eq!(quoted("http://a"), "'http://a'");
        assert_eq!(quoted("a'; rm -rf b"), r"'a'\''; rm -rf b'");
    }
}
