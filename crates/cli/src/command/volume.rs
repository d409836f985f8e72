//! `trueup get volumes`: the disks of a project's services.

use trueup_api::volume::Volume;

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::scope::resolve_scope;
use crate::failure::Exit;
use crate::output::human::age;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Lists volumes; with a name, those of one service.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(service, context, connection).await?;
    let reading = connection.client.volume_list(&scope.project);
    let mut list = context.wait("reading the volumes", reading).await?;
    list.items.retain(|volume| scope.has(&volume.service));
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "SERVICE", "SIZE", "DISK", "SEEN"]);
    for volume in &list.items {
        let size = volume.size_gib.map_or_else(|| "-".to_owned(), |size| format!("{size} GiB"));
        let seen = volume.observed_at.map(|at| format!("{} ago", age(clock::now(), at)));
        table.row(vec![
            Cell::plain(&volume.name),
            Cell::plain(&volume.service),
            Cell::plain(&size),
            disk(volume),
            Cell::plain(seen.as_deref().unwrap_or("never")),
        ]);
    }
    let nouns = format!("volumes of {}", scope.words());
    show(
        &table,
        list.items.is_empty(),
        context,
        &nouns,
        || "templates such as minecraft define them",
    )
}

fn disk(volume: &Volume) -> Cell {
    match volume.bound {
        Some(true) => Cell::new(Paint::Good, "bound"),
        Some(false) => Cell::new(Paint::Busy, "pending"),
        None => Cell::new(Paint::Faint, "unknown"),
    }
}
