//! `trueup drift` and `trueup approve`: what differs from its desired state, and what is done about it.

mod report;

use jiff::Timestamp;
use serde_json::Value;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::drift::{Divergence, DivergenceAdoptBody, DivergenceList, DivergenceQuery};
use trueup_model::drift::DivergenceState;

use crate::clock;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::drift::{change, paint, place, short_object};
use crate::output::format::Output;
use crate::output::human::{age, clean};
use crate::output::table::{Cell, Table};

/// List what other writers changed, since when and at what cost; adopt or reject it
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Only this service: NAME, PROJECT/NAME or svc_…; default: all services
    service: Option<String>,
    /// Include differences that have ended
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a live value the desired one, as a new generation of its service (owners)
    Adopt(Adoption),
    /// Reject the proposal to adopt a live value; it is reverted (owners)
    Reject(Proposal),
    /// Sum up what drift cost, by project, class and writer
    Report(report::Args),
}

/// Approve the proposal to adopt a live value; the same as `trueup drift adopt` (owners)
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    adoption: Adoption,
}

#[derive(Debug, clap::Args)]
struct Proposal {
    /// dvg_…; `trueup drift` lists the proposals
    divergence: String,
    #[command(flatten)]
    dry: DryRun,
}

#[derive(Debug, clap::Args)]
struct Adoption {
    #[command(flatten)]
    proposal: Proposal,
    /// Adopt only this value, as JSON or text; default: the one that is live now
    #[arg(long, value_name = "VALUE")]
    live: Option<String>,
}

/// Reads a value that was typed: JSON, or else text.
fn value(typed: &str) -> Value {
    serde_json::from_str(typed).unwrap_or_else(|_| Value::String(typed.to_owned()))
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Some(Command::Adopt(adoption)) => adopt(&adoption, context).await,
        Some(Command::Reject(proposal)) => reject(&proposal, context).await,
        Some(Command::Report(args)) => report::run(args, context).await,
        None => list(args.service.as_deref(), args.all, context).await,
    }
}

async fn list(service: Option<&str>, all: bool, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let (project, service) = match service {
        Some(name) => {
            let reading = resolve(name, context, &connection);
            let found = context.wait("reading the service", reading).await?;
            (Some(found.project), Some(found.id))
        }
        None => (context.project.clone(), None),
    };
    let query = DivergenceQuery { project, service, ended: all, ..DivergenceQuery::default() };
    let reading = every_divergence(&connection.client, query);
    let list = context.wait("reading the differences", reading).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let table = table(&list.items, now, context.output == Output::Wide);
    let hint = || "the clusters match their desired state; `--all` lists what has ended";
    show(&table, list.items.is_empty(), context, "differences", hint)?;
    for note in notes(&list.items, now) {
        context.terminal.note(&note)?;
    }
    Ok(Exit::Ok)
}

/// Every divergence that matches a query; reads all pages.
async fn every_divergence(
    client: &Client,
    mut query: DivergenceQuery,
) -> Result<DivergenceList, ClientError> {
    let mut all = DivergenceList { items: Vec::new(), next: None };
    loop {
        let page = client.divergence_list(&query).await?;
        all.items.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        query.after = page.next;
    }
}

/// The differences; `wide` adds ids, objects, verdicts and the cost so far, and shortens nothing.
fn table(items: &[Divergence], now: Timestamp, wide: bool) -> Table {
    let mut heading = vec!["AGE", "SERVICE", "FIELD", "CHANGE", "BY", "STATE", "COST/H"];
    if wide {
        heading.insert(0, "ID");
        heading.extend(["VERDICT", "OBJECT", "SO FAR"]);
    }
    let mut table = Table::new(&heading);
    for one in items {
        let mut cells = row(one, now);
        if wide {
            cells.insert(0, Cell::plain(&one.id));
            cells.extend([
                Cell::plain(one.difference.verdict.into_str()),
                Cell::plain(&one.difference.object),
                Cell::plain(one.cost_so_far.as_ref().map_or("-", |cost| cost.text.as_str())),
            ]);
        }
        table.row(cells);
    }
    table.shorten(&["SERVICE", "FIELD", "CHANGE", "BY"]);
    table
}

fn row(one: &Divergence, now: Timestamp) -> Vec<Cell> {
    let difference = &one.difference;
    let field = match difference.field.as_str() {
        "" => short_object(&difference.object),
        field => field.to_owned(),
    };
    vec![
        Cell::plain(&age(now, one.first_seen_at)),
        Cell::plain(&subject(&one.project, one.service.as_deref())),
        Cell::plain(&field),
        Cell::plain(&change(difference)),
        Cell::plain(difference.by.as_deref().unwrap_or("unknown")),
        Cell::new(paint(difference.state), difference.state.into_str()),
        Cell::plain(one.hourly.as_ref().map_or("-", |cost| cost.text.as_str())),
    ]
}

/// `shop/web`, or `shop` for an object of the project itself.
pub fn subject(project: &str, service: Option<&str>) -> String {
    service.map_or_else(|| project.to_owned(), |service| format!("{project}/{service}"))
}

/// What a person can decide about the differences.
fn notes(items: &[Divergence], now: Timestamp) -> Vec<String> {
    let in_state =
        |state: DivergenceState| items.iter().filter(move |one| one.difference.state == state);
    let proposals = in_state(DivergenceState::Proposed).map(|one| proposal_line(one, now));
    let mut notes: Vec<String> = proposals.collect();
    if !notes.is_empty() {
        let decide =
            "approve one with `trueup approve ID`, or reject it with `trueup drift reject ID`";
        notes.push(decide.to_owned());
    }
    if in_state(DivergenceState::InConflict).next().is_some() {
        notes.push("`trueup conflicts` lists what has to be settled".to_owned());
    }
    notes
}

/// A proposal with its id, in one line.
fn proposal_line(one: &Divergence, now: Timestamp) -> String {
    let difference = &one.difference;
    let left = one.expires_at.map(|at| format!(", expires in {}", age(at, now)));
    clean(&format!(
        "proposal {}: {}, {}, {}{}",
        one.id,
        subject(&one.project, one.service.as_deref()),
        place(&difference.object, &difference.field),
        change(difference),
        left.unwrap_or_default()
    ))
}

pub async fn approve(args: ApproveArgs, context: &Context) -> anyhow::Result<Exit> {
    adopt(&args.adoption, context).await
}

async fn adopt(adoption: &Adoption, context: &Context) -> anyhow::Result<Exit> {
    let Adoption { proposal, live } = adoption;
    let client = context.connect()?.client;
    let body = match live {
        Some(live) => DivergenceAdoptBody { live: Some(value(live)) },
        None => {
            let reading = client.divergence_get(&proposal.divergence);
            let seen = context.wait("reading the difference", reading).await?;
            DivergenceAdoptBody { live: Some(seen.difference.live).filter(|live| !live.is_null()) }
        }
    };
    let writing = proposal.dry.begin(&client);
    let adopting = writing.client().divergence_adopt(&proposal.divergence, &body);
    let adopted = context.wait("adopting the value", adopting).await?;
    if writing.previewed(&format!("drift/{}", proposal.divergence), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &adopted)? {
        context.terminal.line(&decided(&adopted))?;
        let service = subject(&adopted.project, adopted.service.as_deref());
        context.terminal.note(&format!("undo it with `trueup rollback {service}`"))?;
    }
    Ok(Exit::Ok)
}

async fn reject(proposal: &Proposal, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let writing = proposal.dry.begin(&client);
    let rejecting = writing.client().divergence_reject(&proposal.divergence);
    let rejected = context.wait("rejecting the proposal", rejecting).await?;
    if writing.previewed(&format!("drift/{}", proposal.divergence), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &rejected)? {
        context.terminal.line(&decided(&rejected))?;
    }
    Ok(Exit::Ok)
}

/// What was decided about a divergence, in one line.
fn decided(one: &Divergence) -> String {
    let difference = &one.difference;
    clean(&format!(
        "{} {}: {}, {}",
        subject(&one.project, one.service.as_deref()),
        difference.state.into_str(),
        place(&difference.object, &difference.field),
        change(difference)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::drift::tests::replicas;
    use crate::output::style::Style;

    fn divergence(id: &str, state: &str) -> Divergence {
        let mut one = serde_json::to_value(replicas(state)).unwrap();
        let more = json!({
            "id": id, "subject": "svc_1", "project": "shop", "service": "web",
            "first_seen_at": "2026-01-01T00:00:00Z", "last_seen_at": "2026-01-01T00:00:30Z",
            "hourly": { "micros": 20550, "currency": "EUR", "text": "0.02055 EUR" },
            "cost_so_far": { "micros": 343, "currency": "EUR", "text": "0.000343 EUR" },
        });
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(one).unwrap()
    }

    fn shown(items: &[Divergence], wide: bool) -> String {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let table = table(items, now, wide);
        let table = if wide { table } else { table.fitted(80) };
        table.render(Style::new(false))
    }

    #[test]
    fn table_fits_a_terminal() {
        let mut image = divergence("dvg_2", "in_conflict");
        image.service = Some("storefront".to_owned());
        image.difference.field = "spec.template.spec.containers.main.image".to_owned();
        image.difference.wanted = json!("registry.example/shop/storefront:1.4.2");
        image.difference.live = json!("registry.example/shop/storefront:1.4.3");
        let mut gone = divergence("dvg_3", "open");
        gone.difference.field = String::new();
        gone.difference.class = trueup_model::drift::DivergenceClass::Deleted;
        gone.difference.by = None;
        gone.hourly = None;
        let items = [divergence("dvg_1", "ignored"), image, gone];
        let text = shown(&items, false);
        assert_eq!(
            text,
            "\
AGE   SERVICE      FIELD       CHANGE      BY          STATE         COST/H
1m    shop/web     spec…icas   2 → 5       kube…cale   ignored       0.02055 EUR
1m    shop…front   spec…mage   regi….4.3   kube…cale   in_conflict   0.02055 EUR
1m    shop/web     Depl…eb-1   deleted     unknown     open          -"
        );
        assert_eq!(
            shown(&items[..1], false),
            "\
AGE   SERVICE    FIELD           CHANGE   BY              STATE     COST/H
1m    shop/web   spec.replicas   2 → 5    kubectl-scale   ignored   0.02055 EUR",
            "what fits is not shortened"
        );
        let wide = shown(&items, true);
        assert!(wide.contains("registry.example/shop/storefront:1.4.2 → registry"), "{wide}");
        assert!(wide.lines().next().unwrap().starts_with("ID "), "{wide}");
    }

    #[test]
    fn notes_say_what_can_be_decided() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(notes(&[divergence("dvg_1", "ignored")], now), Vec::<String>::new());
        let mut proposed = divergence("dvg_1", "proposed");
        proposed.expires_at = "2026-01-02T00:00:00Z".parse().ok();
        assert_eq!(
            notes(&[proposed, divergence("dvg_2", "in_conflict")], now),
            [
                "proposal dvg_1: shop/web, spec.replicas of Deployment/web-1, 2 → 5, expires in 23h",
                "approve one with `trueup approve ID`, or reject it with `trueup drift reject ID`",
                "`trueup conflicts` lists what has to be settled",
            ]
        );
    }

    #[test]
    fn decision_is_one_line() {
        assert_eq!(
            decided(&divergence("dvg_1", "adopted")),
            "shop/web adopted: spec.replicas of Deployment/web-1, 2 → 5"
        );
    }
}
