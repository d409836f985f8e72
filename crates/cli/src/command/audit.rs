//! `trueup audit`: whether the event log is what it was, and whether statuses are what they follow from.
//!
//! Every hash is computed again here, from what the API shows and with nothing of the server's: who
//! changes the log behind it, in the database or on the way, changes what is computed.

use std::str::FromStr;

use serde::Serialize;
use trueup_api::Client;
use trueup_api::event::{CloudEvent, EventFilter, EventPage};
use trueup_api::why::ProjectionCheck;
use trueup_rules::event::chain::{Break, Content, Hash, Walk};

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::count;
use crate::output::progress::Progress;

const PAGE: u32 = 1000;

/// Check that the event log is what it was
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compute every hash of the event log again
    Verify(Verify),
    /// Compute every status again from what is stored, and compare
    Rebuild,
}

#[derive(Debug, clap::Args)]
struct Verify {
    /// A head that was noted earlier and must still be part of the log; may be given many times
    #[arg(long, value_name = "POSITION:HASH")]
    expect: Vec<Noted>,
}

/// A position and the hash that stood there once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    position: i64,
    hash: Hash,
}

impl FromStr for Noted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "write POSITION:HASH as `trueup audit verify` printed it";
        let (position, hash) = text.split_once(':').ok_or(wanted)?;
        let position = position.parse().ok().filter(|position| *position >= 0).ok_or(wanted)?;
        let hash = hash.parse().map_err(|error| format!("{error}; {wanted}"))?;
        Ok(Self { position, hash })
    }
}

/// What was found.
#[derive(Debug, Serialize)]
struct Summary {
    verified: bool,
    /// How many events were checked.
    events: i64,
    /// The last position that can be believed.
    position: i64,
    /// The hash there.
    hash: String,
    /// The first position that cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<i64>,
    /// What is wrong there.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Verify(Verify { expect }) => verify(expect, context).await,
        Command::Rebuild => rebuild(context).await,
    }
}

/// Asks for every status to be computed again, page after page.
async fn rebuild(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let ask = async {
        let mut all = client.projection_check(None).await?;
        while let Some(after) = all.next.take() {
            let page = client.projection_check(Some(&after)).await?;
            all.checked += page.checked;
            all.same += page.same;
            all.older += page.older;
            all.unobserved += page.unobserved;
            all.different.extend(page.different);
            all.next = page.next;
        }
        anyhow::Ok(all)
    };
    let all: ProjectionCheck = context.ask("computing the statuses again", ask).await?;
    if !context.output.print(context.terminal, &all)? {
        context.terminal.line(&format!(
            "{} statuses: {} the same, {} of older rules, {} not observed yet, {} different",
            all.checked,
            all.same,
            all.older,
            all.unobserved,
            all.different.len()
        ))?;
    }
    match all.different.first() {
        None => Ok(Exit::Ok),
        Some(first) => {
            let what = format!("{} is not what its inputs say", first.unit);
            Err(Failure::new(Exit::Failed, what)
                .hint("see both with `trueup audit rebuild -o json`, and report it as a defect")
                .into())
        }
    }
}

async fn verify(expect: Vec<Noted>, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let mut audit = Audit { walk: None, expect };
    let progress = Progress::new(context.terminal, "reading the events");
    let found = audit.read(&connection.client, progress).await?;
    let (position, head) = audit.head();
    let summary = Summary {
        verified: found.is_none(),
        events: position,
        position,
        hash: head.to_string(),
        broken_at: found.as_ref().map(|found| found.position),
        why: found.as_ref().map(|found| found.why.clone()),
    };
    let for_program = context.output.print(context.terminal, &summary)?;
    match found {
        None if for_program => Ok(Exit::Ok),
        None => {
            let events = count(usize::try_from(position).unwrap_or(usize::MAX), "event");
            context.terminal.line(&format!("verified  {events}\nhead      {position}:{head}"))?;
            Ok(Exit::Ok)
        }
        Some(Break { position: at, why }) => {
            let hint = format!(
                "what is before it is as it was (head {position}:{head}); compare the rest with a \
                 backup or another reader's copy"
            );
            Err(Failure::new(Exit::Failed, format!("the event log is broken at {at}: {why}"))
                .hint(hint)
                .into())
        }
    }
}

struct Audit {
    walk: Option<Walk>,
    expect: Vec<Noted>,
}

impl Audit {
    fn head(&self) -> (i64, Hash) {
        self.walk.as_ref().map_or((0, Hash::START), |walk| (walk.position(), walk.head()))
    }

    /// Reads the whole log; answers where it is first broken.
    async fn read(
        &mut self,
        client: &Client,
        mut progress: Progress,
    ) -> anyhow::Result<Option<Break>> {
        let mut after = None;
        loop {
            let page = EventPage::After(after);
            let filter = EventFilter::default();
            let page = progress.wait(client.event_list(&filter, &page, Some(PAGE))).await?;
            for event in &page.items {
                if let Err(found) = self.step(event) {
                    return Ok(Some(found));
                }
            }
            if page.items.is_empty() {
                return Ok(self.missing());
            }
            progress.set(&format!("{} events checked", page.next));
            after = Some(page.next);
        }
    }

    fn step(&mut self, event: &CloudEvent) -> Result<(), Break> {
        let position = self.head().0.saturating_add(1);
        let unreadable = |what: &str| Break {
            position,
            why: format!("its {what} cannot be read; check that client and server fit together"),
        };
        let org = event.orgid.parse().map_err(|_| unreadable("org"))?;
        let sequence = event.sequence.parse().map_err(|_| unreadable("sequence"))?;
        let walk = self.walk.get_or_insert_with(|| Walk::new(org));
        walk.step(sequence, &event.hash, &content(event))?;
        let head = walk.head();
        let noted = self.expect.iter().find(|noted| noted.position == sequence);
        match noted {
            Some(noted) if noted.hash != head => Err(Break {
                position: sequence,
                why:
                    "another hash was noted for it: the log was written anew up to here or from an \
                      earlier position on"
                        .to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// A head that was noted and lies behind the end: the end was cut off.
    fn missing(&self) -> Option<Break> {
        let (end, _) = self.head();
        let noted = self
            .expect
            .iter()
            .filter(|noted| noted.position > end)
            .min_by_key(|noted| noted.position)?;
        let why = format!(
            "it is missing: position {} was noted, and the log ends at {end}",
            noted.position
        );
        Some(Break { position: end.saturating_add(1), why })
    }
}

/// The event as it was shown.
fn content(event: &CloudEvent) -> Content<'_> {
    Content {
        id: &event.id,
        source: &event.source,
        kind: &event.kind,
        subject: &event.subject,
        generation: event.generation,
        time: event.time,
        trace: event.traceid.as_deref(),
        cause: event.causeid.as_deref(),
        data: &event.data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_head_is_read_as_it_was_printed() {
        let hash = Hash::START.to_string();
        assert_eq!(format!("7:{hash}").parse(), Ok(Noted { position: 7, hash: Hash::START }));
        for text in ["", "7", ":", "x:00", &format!("-1:{hash}"), "7:00", &hash] {
            let why = text.parse::<Noted>().unwrap_err();
            assert!(why.contains("POSITION:HASH"), "{text}: {why}");
        }
    }
}
