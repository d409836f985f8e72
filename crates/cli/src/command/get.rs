//! `trueup get`: lists objects, one per line.

use jiff::Timestamp;
use strum::{EnumString, VariantNames};
use trueup_api::Problem;
use trueup_api::client::ClientError;
use trueup_api::cluster::Cluster;
use trueup_api::problem::Code;
use trueup_api::project::Project;
use trueup_api::template::Template;

use super::{
    credit, domain, endpoint, events, invoice, members, org, secret, token, variable, volume,
};
use crate::clock;
use crate::command::catalog;
use crate::command::services::{self, Filter};
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};
use crate::output::format::Output;
use crate::output::human::age;
use crate::output::style::{self, Paint};
use crate::output::table::{Cell, Table};

/// List services, projects, clusters, plans, variables and every other kind
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A kind, or several with commas: services (the default), projects, clusters, templates, plans,
    /// prices of a plan, releases of a service, quota, variables, secrets, volumes, endpoints,
    /// domains, events, invoices, credits, members, tokens, orgs; `all` lists what runs; then a name
    #[arg(value_name = "[KIND] [NAME]", num_args = 0..=2)]
    what: Vec<String>,
    /// Watch services as they change
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    filter: Filter,
}

/// What can be listed. A kind is typed in the plural, in the singular, or by its short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Kind {
    #[strum(serialize = "services", serialize = "service", serialize = "svc")]
    Services,
    #[strum(serialize = "projects", serialize = "project", serialize = "prj")]
    Projects,
    #[strum(serialize = "clusters", serialize = "cluster")]
    Clusters,
    #[strum(serialize = "templates", serialize = "template")]
    Templates,
    #[strum(serialize = "plans", serialize = "plan")]
    Plans,
    #[strum(serialize = "prices", serialize = "price")]
    Prices,
    #[strum(serialize = "releases", serialize = "release")]
    Releases,
    #[strum(serialize = "quota", serialize = "quotas")]
    Quota,
    #[strum(serialize = "variables", serialize = "variable")]
    Variables,
    #[strum(serialize = "secrets", serialize = "secret")]
    Secrets,
    #[strum(serialize = "volumes", serialize = "volume")]
    Volumes,
    #[strum(serialize = "endpoints", serialize = "endpoint")]
    Endpoints,
    #[strum(serialize = "domains", serialize = "domain")]
    Domains,
    #[strum(serialize = "events", serialize = "event")]
    Events,
    #[strum(serialize = "invoices", serialize = "invoice")]
    Invoices,
    #[strum(serialize = "credits", serialize = "credit")]
    Credits,
    #[strum(serialize = "members", serialize = "member")]
    Members,
    #[strum(serialize = "tokens", serialize = "token")]
    Tokens,
    #[strum(serialize = "orgs", serialize = "org")]
    Orgs,
}

/// What `all` stands for: what runs, and what belongs to it.
const ALL: [Kind; 5] =
    [Kind::Projects, Kind::Services, Kind::Endpoints, Kind::Domains, Kind::Volumes];
/// What exists in Kubernetes and not here, and what people who look for it want.
const ELSEWHERE: [(&str, &str); 5] = [
    ("pods", "`trueup describe NAME` and `trueup history NAME` show the pods of a service"),
    ("deployments", "`trueup describe NAME` lists the objects of a service"),
    ("nodes", "`trueup get clusters` lists the clusters"),
    ("namespaces", "`trueup get projects` shows the namespace of each project"),
    ("users", "`trueup get members` lists the people of the org"),
];

/// The kinds and the name. The first word may also be a service: `trueup get web`.
fn parse(what: &[String]) -> Result<(Vec<Kind>, Option<&str>), Failure> {
    let Some(first) = what.first() else { return Ok((vec![Kind::Services], None)) };
    let name = what.get(1).map(String::as_str);
    if first == "all" && name.is_none() {
        return Ok((ALL.to_vec(), None));
    }
    let words: Vec<&str> = first.split(',').collect();
    match words.iter().map(|word| word.parse().map_err(|_| *word)).collect() {
        Ok(kinds) => Ok((kinds, name)),
        Err(_) if words.len() == 1 && name.is_none() && !is_elsewhere(first) => {
            Ok((vec![Kind::Services], Some(first)))
        }
        Err(unknown) => Err(unknown_kind(unknown)),
    }
}

fn is_elsewhere(word: &str) -> bool {
    ELSEWHERE.iter().any(|(kind, _)| *kind == word)
}

fn unknown_kind(word: &str) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("`{word}` is not a kind"));
    match ELSEWHERE.iter().find(|(kind, _)| *kind == word) {
        Some((_, instead)) => failure.hint(*instead),
        None => failure.hint(format!("kinds are {} and all", Kind::VARIANTS.join(", "))),
    }
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let (kinds, name) = parse(&args.what)?;
    if args.watch && kinds != [Kind::Services] {
        return Err(Failure::new(Exit::Usage, "only services can be watched")
            .hint("`trueup events -f` follows everything else")
            .into());
    }
    let connection = context.connect()?;
    if args.watch {
        return services::watch(name, args.filter, context, &connection).await;
    }
    let [kind] = kinds.as_slice() else {
        for (at, kind) in kinds.iter().enumerate() {
            if !context.output.is_for_programs() {
                let gap = if at == 0 { "" } else { "\n" };
                context.terminal.line(&format!("{gap}{}", heading(*kind)))?;
            }
            Box::pin(list(*kind, name, Filter::default(), context, &connection)).await?;
        }
        return Ok(Exit::Ok);
    };
    Box::pin(list(*kind, name, args.filter, context, &connection)).await
}

/// The plural of a kind.
fn heading(kind: Kind) -> String {
    format!("{kind:?}")
}

async fn list(
    kind: Kind,
    name: Option<&str>,
    filter: Filter,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    match kind {
        Kind::Services => services::list(name, filter, context, connection).await,
        Kind::Projects => get_projects(name, context, connection).await,
        Kind::Clusters => get_clusters(name, context, connection).await,
        Kind::Templates => get_templates(name, context, connection).await,
        Kind::Plans => get_plans(name, context, connection).await,
        Kind::Prices => get_prices(name, context, connection).await,
        Kind::Releases => get_releases(name, context, connection).await,
        Kind::Quota => get_quota(context, connection).await,
        // Here the name is that of a service.
        Kind::Variables => variable::list(name, context, connection).await,
        Kind::Secrets => secret::list(name, context, connection).await,
        Kind::Volumes => volume::list(name, context, connection).await,
        Kind::Endpoints => endpoint::list(name, context, connection).await,
        Kind::Domains => domain::list(name, context, connection).await,
        Kind::Events => events::list(name, context).await,
        Kind::Invoices => invoice::list(&connection.client, context).await,
        Kind::Credits => credit::list(context).await,
        Kind::Members => members::list(&connection.client, context).await,
        Kind::Tokens => token::list(&connection.client, context).await,
        Kind::Orgs => org::list(&connection.client, context).await,
    }
}

async fn get_plans(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let mut list = context.wait("reading the plans", connection.client.plan_list()).await?;
    if let Some(name) = name {
        list.items.retain(|plan| plan.name == name);
        one_of("plan", name, list.items.len())?;
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    show(
        &catalog::plans(&list.items),
        list.items.is_empty(),
        context,
        "plans",
        || "an operator creates them with `trueup apply -f FILE`",
    )
}

async fn get_prices(
    plan: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let plan = plan.ok_or_else(|| {
        Failure::new(Exit::Usage, "prices belong to a plan").hint("write `trueup get prices PLAN`")
    })?;
    let list = context.wait("reading the prices", connection.client.plan_prices(plan)).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let table = catalog::prices(&list.items, clock::now());
    show(&table, list.items.is_empty(), context, "prices", || "every plan has one")
}

async fn get_releases(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let name = name.ok_or_else(|| {
        Failure::new(Exit::Usage, "releases belong to a service")
            .hint("write `trueup get releases NAME`")
    })?;
    let reading = resolve(name, context, connection);
    let service = context.wait("reading the service", reading).await?;
    let reading = connection.client.release_list(&service.project, &service.id, None, Some(1000));
    let list = context.wait("reading the releases", reading).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let table = catalog::releases(&list.items, clock::now());
    show(&table, list.items.is_empty(), context, "releases", || "every accepted change creates one")
}

async fn get_quota(context: &Context, connection: &Connection) -> anyhow::Result<Exit> {
    let quota = context.wait("reading the quota", connection.client.quota_get()).await?;
    if !context.output.print(context.terminal, &quota)? {
        context.table(&catalog::quota(&quota))?;
    }
    Ok(Exit::Ok)
}

async fn get_projects(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if let Some(name) = name {
        let project =
            context.wait("reading the project", connection.client.project_get(name)).await?;
        if !context.output.print(context.terminal, &project)? {
            context.table(&projects(&[project]))?;
        }
        return Ok(Exit::Ok);
    }
    let list = context.wait("reading the projects", connection.client.project_list()).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    show(
        &projects(&list.items),
        list.items.is_empty(),
        context,
        "projects",
        || "declare one with `trueup apply -f FILE`",
    )
}

async fn get_clusters(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if let Some(name) = name {
        let reading = connection.client.cluster_get(name);
        let cluster = context.wait("reading the cluster", reading).await?;
        if !context.output.print(context.terminal, &cluster)? {
            let table = clusters(&[cluster], clock::now());
            context.table(&table)?;
        }
        return Ok(Exit::Ok);
    }
    let list = context.wait("reading the clusters", connection.client.cluster_list()).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    show(
        &clusters(&list.items, clock::now()),
        list.items.is_empty(),
        context,
        "clusters",
        || "`trueup up` says how to add one",
    )
}

async fn get_templates(
    name: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let mut list = context.wait("reading the templates", connection.client.template_list()).await?;
    if let Some(name) = name {
        list.items.retain(|template| {
            template.name == name || template.name.split('@').next() == Some(name)
        });
        one_of("template", name, list.items.len())?;
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    show(
        &templates(&list.items, context.output == Output::Wide),
        list.items.is_empty(),
        context,
        "templates",
        || "Trueup loads them when it starts",
    )
}

fn one_of(kind: &str, name: &str, found: usize) -> Result<(), ClientError> {
    if found > 0 {
        return Ok(());
    }
    let problem = Problem::new(Code::NotFound, format!("no {kind} is named `{name}`"));
    Err(ClientError::Problem(Box::new(problem)))
}

/// Prints the table, or a note with a hint if it is empty.
pub fn show(
    table: &Table,
    empty: bool,
    context: &Context,
    nouns: &str,
    hint: impl Fn() -> &'static str,
) -> anyhow::Result<Exit> {
    if empty {
        context.terminal.note(&format!("no {nouns}; {}", hint()))?;
    } else {
        context.table(table)?;
    }
    Ok(Exit::Ok)
}

fn projects(items: &[Project]) -> Table {
    let mut table = Table::new(&["NAME", "PHASE", "HEALTH", "CLUSTER", "NAMESPACE", "GEN", "NOTE"]);
    for project in items {
        table.row(vec![
            Cell::plain(&project.name),
            Cell::new(style::phase(project.status.phase), project.status.phase.into_str()),
            Cell::new(style::health(project.status.health), project.status.health.into_str()),
            Cell::plain(&project.cluster),
            Cell::plain(&project.namespace),
            Cell::plain(&project.generation.to_string()),
            Cell::new(Paint::Faint, first_condition(project)),
        ]);
    }
    table
}

/// Why a project has not converged.
fn first_condition(project: &Project) -> &str {
    project.status.conditions.first().map_or("", |condition| condition.message.as_str())
}

fn clusters(items: &[Cluster], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "REACHABILITY", "LAST SEEN", "NOTE"]);
    for cluster in items {
        let last_seen = cluster
            .heard_at
            .map_or_else(|| "never".to_owned(), |at| format!("{} ago", age(now, at)));
        table.row(vec![
            Cell::plain(&cluster.name),
            Cell::new(style::reachability(cluster.reachability), cluster.reachability.into_str()),
            Cell::plain(&last_seen),
            Cell::new(Paint::Faint, cluster.note.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// Template versions; `wide` adds the parameters, required ones marked with `*`.
pub fn templates(items: &[Template], wide: bool) -> Table {
    let mut table = Table::new(if wide {
        &["NAME", "PLAN", "STATE", "PARAMETERS", "SUMMARY"]
    } else {
        &["NAME", "PLAN", "STATE", "SUMMARY"]
    });
    for template in items {
        let (paint, state) = match &template.deprecated {
            Some(deprecated) => (Paint::Busy, format!("deprecated: {}", deprecated.instead)),
            None => (Paint::Good, "published".to_owned()),
        };
        let mut cells = vec![
            Cell::plain(&template.name),
            Cell::plain(template.plan.as_deref().unwrap_or_default()),
            Cell::new(paint, &state),
        ];
        if wide {
            cells.push(Cell::new(Paint::Faint, &parameter_names(template)));
        }
        cells.push(Cell::plain(&template.summary));
        table.row(cells);
    }
    table
}

fn parameter_names(template: &Template) -> String {
    let names = template.parameters.as_object().into_iter().flatten();
    let marked = names.map(|(name, parameter)| {
        let required = parameter.get("default").is_none();
        if required { format!("{name}*") } else { name.clone() }
    });
    marked.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_is_a_kind_or_a_service() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(parse(&[]).unwrap(), (vec![Kind::Services], None));
        assert_eq!(parse(&words(&["projects"])).unwrap(), (vec![Kind::Projects], None));
        assert_eq!(parse(&words(&["web"])).unwrap(), (vec![Kind::Services], Some("web")));
        assert_eq!(parse(&words(&["svc", "web"])).unwrap(), (vec![Kind::Services], Some("web")));
        assert_eq!(parse(&words(&["prices", "small"])).unwrap().1, Some("small"));
        let several = parse(&words(&["plans,project"])).unwrap().0;
        assert_eq!(several, [Kind::Plans, Kind::Projects]);
        assert_eq!(parse(&words(&["all"])).unwrap().0, ALL);
        for unknown in [&["pods"][..], &["pods", "web"], &["plans,nope"]] {
            assert!(parse(&words(unknown)).is_err(), "{unknown:?}");
        }
    }
}
