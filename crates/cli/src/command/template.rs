//! `trueup template`: lists templates; operators publish and deprecate versions.

use serde_json::Value;
use trueup_api::template::{TemplateDeprecation, TemplateManifest};
use trueup_model::template::TemplateRef;

use crate::command::get::templates;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};
use crate::output::format::Output;

/// List templates, publish a version or deprecate one
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List every version of every template
    List,
    /// Show the versions of one template, or one version in full
    Get {
        /// NAME or NAME@VERSION
        name: String,
    },
    /// Publish the next version of a template (operators)
    Publish {
        /// A YAML file with one template; `-` is stdin
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Deprecate a version: it takes no new services (operators)
    Deprecate {
        /// NAME@VERSION
        name: TemplateRef,
        /// What to use instead, in one sentence
        #[arg(long, value_name = "TEXT")]
        instead: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::List => list(context).await,
        Command::Get { name } => get(&name, context).await,
        Command::Publish { file, dry } => publish(&file, dry, context).await,
        Command::Deprecate { name, instead, dry } => deprecate(&name, instead, dry, context).await,
    }
}

async fn list(context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let list = context.wait("reading the templates", connection.client.template_list()).await?;
    if !context.output.print(context.terminal, &list)? {
        let table = templates(&list.items, context.output == Output::Wide);
        context.table(&table)?;
    }
    Ok(Exit::Ok)
}

async fn get(name: &str, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    if let Ok(one) = name.parse::<TemplateRef>() {
        let reading = connection.client.template_get(one.name.as_str(), one.version);
        let template = context.wait("reading the template", reading).await?;
        // A template is a document: YAML also for people.
        let output = match context.output {
            Output::Table | Output::Wide => Output::Yaml,
            chosen @ (Output::Json | Output::Yaml) => chosen,
        };
        output.print(context.terminal, &template)?;
        return Ok(Exit::Ok);
    }
    let reading = connection.client.template_versions(name);
    let list = context.wait("reading the template", reading).await?;
    if !context.output.print(context.terminal, &list)? {
        let table = templates(&list.items, true);
        context.table(&table)?;
    }
    Ok(Exit::Ok)
}

async fn publish(file: &str, dry: DryRun, context: &Context) -> anyhow::Result<Exit> {
    let manifest = read(file)?;
    let connection = context.connect()?;
    let writing = dry.begin(&connection.client);
    let sending = writing.client().template_publish(&manifest);
    let template = context.wait("publishing the template", sending).await?;
    if writing.previewed(&format!("template/{}", template.name), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &template)? {
        context.terminal.line(&format!("template/{} published", template.name))?;
        let hint = format!("see its parameters: trueup explain {}", template.name);
        context.terminal.note(&hint)?;
    }
    Ok(Exit::Ok)
}

async fn deprecate(
    version: &TemplateRef,
    instead: String,
    dry: DryRun,
    context: &Context,
) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let body = TemplateDeprecation { instead };
    let writing = dry.begin(&connection.client);
    let sending =
        writing.client().template_deprecate(version.name.as_str(), version.version, &body);
    let template = context.wait("deprecating the template", sending).await?;
    if writing.previewed(&format!("template/{version}"), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &template)? {
        context.terminal.line(&format!(
            "template/{} deprecated: no new services; existing ones keep running",
            template.name
        ))?;
    }
    Ok(Exit::Ok)
}

fn read(file: &str) -> Result<TemplateManifest, Failure> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| {
        Failure::new(Exit::Failed, format!("{file}: cannot be read: {error}"))
            .hint("check the path")
    })?;
    parse(file, &text)
}

fn parse(file: &str, text: &str) -> Result<TemplateManifest, Failure> {
    let wrong = |why: String| Failure::new(Exit::Failed, format!("{file}: {why}"));
    let document: Value = serde_saphyr::from_str(text).map_err(|error| {
        wrong(format!("is not one YAML document: {}", error.without_snippet()))
            .hint("fix the syntax")
    })?;
    serde_json::from_value(document).map_err(|error| {
        wrong(format!("is not a template: {error}"))
            .hint("see `trueup explain template` for its fields")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_template_parses_as_a_manifest() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates");
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            assert!(read(path.to_str().unwrap()).is_ok(), "{}", path.display());
        }
    }

    #[test]
    fn invalid_template_file_is_explained() {
        let missing = read("/nonexistent/bot.yaml").unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
        for (text, message) in [
            ("name: [", "is not one YAML document"),
            ("name: bot\n", "missing field"),
            (
                "name: bot\nversion: 1\nsummary: x\nspec: {}\ncolour: red\n",
                "unknown field `colour`",
            ),
        ] {
            let failure = parse("bot.yaml", text).unwrap_err();
            assert!(failure.to_string().contains(message), "{text}: {failure}");
        }
    }
}
