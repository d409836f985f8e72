//! `trueup delete NAME NAME …`: one question, then each service on its own.

use trueup_api::client::Terms;
use trueup_api::service::Service;
use trueup_model::service::DesiredState;

use super::{Args, wait};
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::connect::targets::listed;
use crate::failure::{Exit, Failure, explain};
use crate::output::human::count;

pub(super) async fn run(
    names: &[String],
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if args.force || args.if_match.is_some() {
        return Err(Failure::new(Exit::Usage, "--force and --if-match are for one service")
            .hint("name one service")
            .into());
    }
    let mut services: Vec<Service> = Vec::new();
    for name in names {
        let reading = resolve(name, context, connection);
        services.push(context.wait("reading the service", reading).await?);
    }
    delete(services, args, context, connection).await
}

/// Deletes these services after one question. Each is accepted or refused on its own.
pub(super) async fn delete(
    services: Vec<Service>,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if !args.dry.is_dry() && services.iter().any(|it| it.desired != DesiredState::Deleted) {
        let operation = format!("delete {}", count(services.len(), "service"));
        let question = format!("{}, with all objects and data?", listed(&operation, &services));
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    let (mut accepted, mut failed) = (Vec::new(), 0);
    for service in services {
        match request(&service, args, context, connection).await {
            Ok(deleted) => accepted.extend(deleted),
            Err(error) => {
                failed += 1;
                let (_, message, hint) = explain(&error);
                let message = format!("{}/{}: {message}", service.project, service.name);
                context.terminal.error(&message, hint.as_deref())?;
            }
        }
    }
    if args.wait {
        for service in accepted {
            wait(service, args.timeout, context, connection).await?;
        }
    }
    Ok(if failed > 0 { Exit::Failed } else { Exit::Ok })
}

/// Requests the deletion of one service; none if it was only previewed.
async fn request(
    service: &Service,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Option<Service>> {
    let writing = args.dry.begin(&connection.client);
    // By id: the name may belong to another service by now.
    let deleting = writing.client().service_delete(&service.project, &service.id, &Terms::PLAIN);
    let accepted = context.wait("requesting the deletion", deleting).await?;
    if writing.previewed(&format!("service/{}/{}", service.project, service.name), context)? {
        return Ok(None);
    }
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was already accepted" };
        context.terminal.line(&format!(
            "service/{} deletion {outcome}, generation {}",
            accepted.service.name, accepted.service.generation
        ))?;
    } else if !args.wait {
        context.output.print_item(context.terminal, &accepted.service)?;
    }
    Ok(Some(accepted.service))
}
