//! Which service a person means: `web`, `shop/web` or `svc_…`.

use trueup_api::client::{ClientError, ServiceQuery};
use trueup_api::problem::Code;
use trueup_api::service::Service;

use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};

/// A name as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target<'a> {
    Id(&'a str),
    InProject { project: &'a str, name: &'a str },
    Name(&'a str),
}

fn read<'a>(text: &'a str, project: Option<&'a str>) -> Result<Target<'a>, Failure> {
    let text = text.strip_prefix("service/").unwrap_or(text);
    match (text.split_once('/'), project) {
        (Some((project, name)), _) if !project.is_empty() && !name.is_empty() => {
            if name.contains('/') {
                Err(unreadable(text))
            } else {
                Ok(Target::InProject { project, name })
            }
        }
        (Some(_), _) => Err(unreadable(text)),
        (None, _) if text.is_empty() => Err(unreadable(text)),
        (None, Some(project)) => Ok(Target::InProject { project, name: text }),
        (None, None) if text.starts_with("svc_") => Ok(Target::Id(text)),
        (None, None) => Ok(Target::Name(text)),
    }
}

fn unreadable(text: &str) -> Failure {
    Failure::new(Exit::Usage, format!("`{text}` names no service"))
        .hint("write NAME, PROJECT/NAME or svc_…")
}

/// Reads the service that is meant.
pub async fn resolve(
    text: &str,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Service> {
    let client = &connection.client;
    let (project, name) = match read(text, context.project.as_deref())? {
        Target::InProject { project, name } => (project.to_owned(), name.to_owned()),
        Target::Id(id) => match find_project(id, connection).await? {
            Some(project) => (project, id.to_owned()),
            None => return Err(none(text, &[]).into()),
        },
        Target::Name(name) => {
            let named = list(connection, Some(name)).await?;
            if !named.iter().any(|service| service.name == name) {
                return Err(none(name, &list(connection, None).await?).into());
            }
            let chosen = choose(name, &named, connection.default_project.as_deref())?;
            (chosen.project.clone(), chosen.id.clone())
        }
    };
    Ok(client.service_get(&project, &name).await?)
}

/// Services whose name holds this text, or some of all: as many as one page has.
async fn list(connection: &Connection, name: Option<&str>) -> Result<Vec<Service>, ClientError> {
    let search = name.map(str::to_owned);
    let query = ServiceQuery { search, limit: Some(1000), ..ServiceQuery::default() };
    Ok(connection.client.service_list(&query).await?.items)
}

/// The project of a service that is known by its id alone, whether it lives or is gone.
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

/// The one service with that name; of many, the one in the default project.
fn choose<'a>(
    name: &str,
    services: &'a [Service],
    default_project: Option<&str>,
) -> Result<&'a Service, Failure> {
    let named: Vec<&Service> = services.iter().filter(|service| service.name == name).collect();
    match named.as_slice() {
        [] => Err(none(name, services)),
        [only] => Ok(only),
        many => {
            let preferred =
                many.iter().find(|service| Some(service.project.as_str()) == default_project);
            preferred.copied().ok_or_else(|| {
                Failure::new(Exit::Failed, format!("more than one service is called `{name}`"))
                    .hint(format!("say which: {}", spelled(many.iter().copied())))
            })
        }
    }
}

fn none(name: &str, services: &[Service]) -> Failure {
    let failure = Failure::new(Exit::NotFound, format!("there is no service `{name}`"));
    if services.is_empty() {
        return failure.hint("`trueup get services` lists what there is");
    }
    let more = if services.len() > 5 { ", …" } else { "" };
    failure.hint(format!("there are {}{more}", spelled(services.iter().take(5))))
}

fn spelled<'a>(services: impl Iterator<Item = &'a Service>) -> String {
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
    fn names_are_read_in_three_shapes() {
        let in_shop = Target::InProject { project: "shop", name: "web" };
        assert_eq!(read("web", None).unwrap(), Target::Name("web"));
        assert_eq!(read("svc_1", None).unwrap(), Target::Id("svc_1"));
        assert_eq!(read("shop/web", None).unwrap(), in_shop);
        assert_eq!(read("shop/web", Some("games")).unwrap(), in_shop);
        assert_eq!(read("web", Some("shop")).unwrap(), in_shop);
        assert_eq!(read("service/web", None).unwrap(), Target::Name("web"));
        for text in ["", "/", "a/", "/a", "a/b/c"] {
            assert!(read(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_unique_or_in_the_default_project() {
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
