//! `trueup api`: calls any API path with the usual credentials.

use std::io::{IsTerminal, Read};

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};

/// Call the API directly: the status goes to stderr, the body to stdout
#[derive(Debug, clap::Args)]
pub struct Args {
    /// GET, PUT, POST, PATCH or DELETE
    method: String,
    /// The path with its query, such as /v1/services?project=shop
    path: String,
    /// Send this file as the body; `-` is stdin
    #[arg(short, long, value_name = "FILE")]
    data: Option<String>,
    /// Send this header (may be given more than once)
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let headers = headers(&args.headers)?;
    let body = args.data.as_deref().map(read).transpose()?;
    let client = context.connect()?.client;
    let method = args.method.to_uppercase();
    let calling = client.raw(&method, &args.path, &headers, body);
    let response = context.wait("waiting for Trueup", calling).await?;
    context.terminal.note(&format!("HTTP {} {}", response.status, response.reason))?;
    let is_json = response.content_type.is_some_and(|kind| kind.contains("json"));
    let pretty = std::io::stdout().is_terminal() && is_json;
    match serde_json::from_slice::<serde_json::Value>(&response.body) {
        Ok(value) if pretty => context.terminal.line(&serde_json::to_string_pretty(&value)?)?,
        Ok(_) | Err(_) => context.terminal.raw(&response.body)?,
    }
    Ok(match response.status {
        200..=399 => Exit::Ok,
        404 => Exit::NotFound,
        _ => Exit::Failed,
    })
}

fn read(path: &str) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    if path == "-" {
        std::io::stdin().lock().read_to_end(&mut body)?;
        return Ok(body);
    }
    std::fs::read(path).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read {path}: {error}"))
            .hint("check the path; `-` is stdin")
            .into()
    })
}

/// Parses headers. An invalid header is not printed: it may hold a secret.
fn headers(given: &[String]) -> Result<Vec<(&str, &str)>, Failure> {
    let read = |text| -> Option<(&str, &str)> {
        let (name, value) = str::split_once(text, ':')?;
        Some((name.trim(), value.trim()))
    };
    let pairs: Option<Vec<_>> = given.iter().map(|text| read(text.as_str())).collect();
    pairs.ok_or_else(|| {
        Failure::new(Exit::Usage, "a header has no colon")
            .hint("write it like -H 'If-Match: \"g3\"'")
    })
}
