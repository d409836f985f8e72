//! `trueup hours`: when services run, by the clock of a place.

use trueup_api::service::HoursBody;
use trueup_model::active_hours::{ActiveHours, ActiveWindow};

use super::{Common, Operation, run};
use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::hours::window;

/// Let services run during some hours only
///
/// Outside of its hours a service is paused: its pods stop, its disks and its share of the quota stay. A person who
/// pauses or resumes it wins until its hours change something next.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("hours").required(true).args(["active", "always"])))]
pub struct HoursArgs {
    #[command(flatten)]
    common: Common,
    /// Run within this window: `15:00-23:00`, `mon-fri 15:00-23:00`; may be repeated
    #[arg(long, value_name = "WINDOW", value_parser = window, requires = "zone")]
    active: Vec<ActiveWindow>,
    /// The time zone of the windows, by its IANA name
    #[arg(long, value_name = "ZONE", conflicts_with = "always")]
    zone: Option<String>,
    /// Remove the hours: run always
    #[arg(long)]
    always: bool,
}

pub async fn hours(args: HoursArgs, context: &Context) -> anyhow::Result<Exit> {
    let hours =
        args.zone.filter(|_| !args.always).map(|zone| ActiveHours { zone, windows: args.active });
    run(&args.common, &Operation::Hours(HoursBody { active: hours }), context).await
}
