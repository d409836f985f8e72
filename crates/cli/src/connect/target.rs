//! Resolves a service argument: `web`, `shop/web` or `svc_…`.

use trueup_api::client::{ClientError, ServiceQuery};
use trueup_api::problem::Code;
use trueup_api::service::Service;

use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};

/// A parsed service argument.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target<'a> {
    Id(&'a str),
    InProject { project: &'a str, name: &'a str },
    Name(&'a str),
}

fn parse<'a>(text: &'a str, project: Option<&'a str>) -> Result<Target<'a>, Failure> {
    let text = text.strip_prefix("service/").unwrap_or(text);
    match (text.split_once('/'), project) {
        (Some((project, name)), _) if !project.is_empty() && !name.is_empty() => {
            if name.contains('/') {
                Err(invalid_name(text))
            } else {
                Ok(Target::InProject { project, name })
            }
        }
        (Some(_), _) => Err(invalid_name(text)),
        (None, _) if text.is_empty() => Err(invalid_name(text)),
        (None, Some(project)) => Ok(Target::InProject { project, name: text }),
        (None, None) if text.starts_with("svc_") => Ok(Target::Id(text)),
        (None, None) => Ok(Target::Name(text)),
    }
}

/// The name in `NAME` or `service NAME`.
pub fn service_name(words: &[String]) -> Result<&str, Failure> {
    match words {
        [name] => Ok(name),
        [kind, name] if matches!(kind.as_str(), "service" | "services" | "svc") => Ok(name),
        [kind, ..] => Err(Failure::new(Exit::Usage, format!("`{kind}` is not a service")).hint(
            format!("this command is about one service; `trueup get {kind}` may list yours"),
        )),
        [] => Err(invalid_name("")),
    }
}

fn invalid_name(text: &str) -> Failure {
    Failure::new(Exit::Usage, format!("`{text}` is not a service name"))
        .hint("write NAME, PROJECT/NAME or svc_…")
}

/// Reads the service that the argument names.
pub async fn resolve(
    text: &str,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Service> {
    let client = &connection.client;
    let (project, name) = match parse(text, context.project.as_deref())? {
        Target::InProject { project, name } => (project.to_owned(), name.to_owned()),
        Target::Id(id) => match find_project(id, connection).await? {
            Some(project) => (project, id.to_owned()),
            None => return Err(not_found(text, &[]).into()),
        },
        Target::Name(name) => {
            let named = list(connection, Some(name)).await?;
            if !named.iter().any(|service| service.name == name) {
                return Err(not_found(name, &list(connection, None).await?).into());
            }
            let chosen = choose(name, &named, connection.default_project.as_deref())?;
            (chosen.project.clone(), chosen.id.clone())
        }
    };
    Ok(client.service_get(&project, &name).await?)
}

/// One page of the services whose name contains this text, or of all services.
async fn list(connection: &Connection, name: Option<&str>) -> Result<Vec<Service>, ClientError> {
    let search = name.map(str::to_owned);
    let query = ServiceQuery { search, limit: Some(1000), ..ServiceQuery::default() };
    Ok(connection.client.service_list(&query).await?.items)
}

/// The project of a service, found by the service's id; deleted services included.
async fn find_project(id: &str, connection: &Connection) -> Result<Option<String>, ClientError> {
    for project in connection.client.project_list().await?.items {
        match connection.client.service_get(&project.name, id).await {
            Ok(_) => return Ok(Some(project.name)),
            Err(error) if error.code() == Some(Code::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The only service with that name; of several, the one in the default project.
fn choose<'a>(
    name: &str,
    services: &'a [Service],
    default_project: Option<&str>,
) -> Result<&'a Service, Failure> {
    let named: Vec<&Service> = services.iter().filter(|service| service.name == name).collect();
    match named.as_slice() {
        [] => Err(not_found(name, services)),
        [only] => Ok(only),
        many => {
            let preferred =
                many.iter().find(|service| Some(service.project.as_str()) == default_project);
            preferred.copied().ok_or_else(|| {
                Failure::new(Exit::Failed, format!("more than one service is named `{name}`"))
                    .hint(format!("choose one: {}", qualified_names(many.iter().copied())))
            })
        }
    }
}

fn not_found(name: &str, services: &[Service]) -> Failure {
    let failure = Failure::new(Exit::NotFound, format!("there is no service `{name}`"));
    if services.is_empty() {
        return failure.hint("`trueup get services` lists the services");
    }
    let more = if services.len() > 5 { ", …" } else { "" };
    failure.hint(format!("services are {}{more}", qualified_names(services.iter().take(5))))
}

fn qualified_names<'a>(services: impl Iterator<Item = &'a Service>) -> String {
    services
        .map(|service| format!("{}/{}", service.project, service.name))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::until::tests::service;

    fn of(project: &str, name: &str) -> Service {
        Service {
            project: project.to_owned(),
            name: name.to_owned(),
            ..service("running", "healthy", Some(3))
        }
    }

    #[test]
    fn names_parse_in_three_forms() {
        let in_shop = Target::InProject { project: "shop", name: "web" };
        assert_eq!(parse("web", None).unwrap(), Target::Name("web"));
        assert_eq!(parse("svc_1", None).unwrap(), Target::Id("svc_1"));
        assert_eq!(parse("shop/web", None).unwrap(), in_shop);
        assert_eq!(parse("shop/web", Some("games")).unwrap(), in_shop);
        assert_eq!(parse("web", Some("shop")).unwrap(), in_shop);
        assert_eq!(parse("service/web", None).unwrap(), Target::Name("web"));
        for text in ["", "/", "a/", "/a", "a/b/c"] {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn ambiguous_name_resolves_to_the_default_project() {
        let services = [of("games", "mc"), of("games", "web"), of("shop", "web")];
        assert_eq!(choose("mc", &services, Some("shop")).unwrap().project, "games");
        assert_eq!(choose("web", &services, Some("shop")).unwrap().project, "shop");
        let failure = choose("web", &services, None).unwrap_err();
        assert!(failure.to_string().contains("more than one"), "{failure}");
        assert!(choose("web", &services, Some("other")).is_err());
        let failure = choose("wbe", &services, None).unwrap_err();
        assert_eq!(failure.to_string(), "there is no service `wbe`");
    }
}
