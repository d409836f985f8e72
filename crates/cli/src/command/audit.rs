//! `trueup audit`: verifies the event log's hash chain, and statuses against their inputs.
//!
//! Every hash is recomputed here from the events that the API returns: a change of the log in the
//! database or in transit changes the hash.

mod checkpoint;

use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use trueup_api::Client;
use trueup_api::event::{CloudEvent, EventFilter, EventPage};
use trueup_api::why::ProjectionCheck;
use trueup_model::OrgId;
use trueup_rules::event::chain::{Break, Content, Hash, Walk};

use checkpoint::Kept;

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::count;
use crate::output::progress::Progress;

const PAGE: u32 = 1000;

/// Verify the event log and the statuses
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Recompute every hash of the event log
    Verify(Verify),
    /// Print a signed checkpoint of the event log, to keep outside of this install
    Checkpoint {
        /// Write it to this new file instead
        file: Option<PathBuf>,
    },
    /// Recompute every status from its stored inputs and compare
    Rebuild,
}

#[derive(Debug, clap::Args)]
struct Verify {
    /// A head recorded earlier that must still be in the log (may be given more than once)
    #[arg(long, value_name = "POSITION:HASH")]
    expect: Vec<RecordedHead>,
    /// A file of `trueup audit checkpoint` that must still hold (may be given more than once)
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
}

/// A position of the log and the hash recorded for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordedHead {
    position: i64,
    hash: Hash,
}

impl FromStr for RecordedHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "write POSITION:HASH as `trueup audit verify` printed it";
        let (position, hash) = text.split_once(':').ok_or(wanted)?;
        let position = position.parse().ok().filter(|position| *position >= 0).ok_or(wanted)?;
        let hash = hash.parse().map_err(|error| format!("{error}; {wanted}"))?;
        Ok(Self { position, hash })
    }
}

/// The result of a verification.
#[derive(Debug, Serialize)]
struct Summary {
    verified: bool,
    /// Number of verified events.
    events: i64,
    /// The last verified position.
    position: i64,
    /// The hash at that position.
    hash: String,
    /// What was proved, if the log is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<Proof>,
    /// The first position that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<i64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What a verification proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Proof {
    /// The events fit together. The whole log may have been computed again.
    Consistent,
    /// Nothing up to a position was changed since it was recorded.
    Unchanged {
        /// The position.
        up_to: i64,
        /// When the newest checkpoint was signed; none for a head without a time.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
}

impl Proof {
    fn of(expect: &[RecordedHead], kept: &[Kept]) -> Self {
        match expect.iter().map(|recorded| recorded.position).max() {
            None => Self::Consistent,
            Some(up_to) => {
                let newest = kept.iter().filter(|kept| kept.position == up_to);
                Self::Unchanged { up_to, since: newest.map(|kept| kept.signed_at).min() }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Consistent => {
                "proved    the events fit together; not that the log was never computed again: \
                                 keep a checkpoint (`trueup audit checkpoint`)"
                    .to_owned()
            }
            Self::Unchanged { up_to, since: None } => {
                format!(
                    "proved    nothing up to position {up_to} was changed since its hash was recorded"
                )
            }
            Self::Unchanged { up_to, since: Some(since) } => {
                format!(
                    "proved    nothing up to position {up_to} was changed since {since}, when it was signed"
                )
            }
        }
    }
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Verify(wanted) => verify(wanted, context).await,
        Command::Checkpoint { file } => checkpoint::export(file.as_deref(), context).await,
        Command::Rebuild => rebuild(context).await,
    }
}

/// Recomputes every status on the server, page by page.
async fn rebuild(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let request = async {
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
    let all: ProjectionCheck = context.wait("recomputing the statuses", request).await?;
    if !context.output.print(context.terminal, &all)? {
        context.terminal.line(&format!(
            "{} statuses: {} equal, {} of older rules, {} not observed yet, {} different",
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
            let what = format!("the status of {} differs from its recomputed status", first.unit);
            Err(Failure::new(Exit::Failed, what)
                .hint("compare both with `trueup audit rebuild -o json`, and report a bug")
                .into())
        }
    }
}

async fn verify(wanted: Verify, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let kept = checkpoint::read(&wanted.checkpoint, &connection.client).await?;
    let signed = kept.iter().map(|kept| RecordedHead { position: kept.position, hash: kept.hash });
    let expect: Vec<RecordedHead> = wanted.expect.into_iter().chain(signed).collect();
    let proof = Proof::of(&expect, &kept);
    let mut audit = Audit { walk: None, expect, org: kept.first().map(|kept| kept.org) };
    let progress = Progress::new(context.terminal, "reading the events");
    let found = audit.read(&connection.client, progress).await?;
    let (position, head) = audit.head();
    let summary = Summary {
        verified: found.is_none(),
        events: position,
        position,
        hash: head.to_string(),
        proof: found.is_none().then(|| proof.clone()),
        broken_at: found.as_ref().map(|found| found.position),
        why: found.as_ref().map(|found| found.why.clone()),
    };
    let for_program = context.output.print(context.terminal, &summary)?;
    match found {
        None if for_program => Ok(Exit::Ok),
        None => {
            let events = count(usize::try_from(position).unwrap_or(usize::MAX), "event");
            let proof = proof.text();
            context
                .terminal
                .line(&format!("verified  {events}\n{proof}\nhead      {position}:{head}"))?;
            Ok(Exit::Ok)
        }
        Some(Break { position: at, why }) => {
            let hint = format!(
                "the log is intact up to head {position}:{head}; compare the rest with a backup or \
                 another copy"
            );
            Err(Failure::new(Exit::Failed, format!("the event log is broken at {at}: {why}"))
                .hint(hint)
                .into())
        }
    }
}

struct Audit {
    walk: Option<Walk>,
    expect: Vec<RecordedHead>,
    /// The org of the checkpoints.
    org: Option<OrgId>,
}

impl Audit {
    fn head(&self) -> (i64, Hash) {
        self.walk.as_ref().map_or((0, Hash::START), |walk| (walk.position(), walk.head()))
    }

    /// Reads the whole log; returns the first break.
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
            why: format!("invalid {what}; check that client and server have the same version"),
        };
        let org = event.orgid.parse().map_err(|_| unreadable("org"))?;
        if self.org.is_some_and(|expected| expected != org) {
            let why = "the checkpoint is of another org; name that one with --org".to_owned();
            return Err(Break { position, why });
        }
        let sequence = event.sequence.parse().map_err(|_| unreadable("sequence"))?;
        let walk = self.walk.get_or_insert_with(|| Walk::new(org));
        walk.step(sequence, &event.hash, &content(event))?;
        let head = walk.head();
        let mut recorded = self.expect.iter().filter(|recorded| recorded.position == sequence);
        if recorded.all(|recorded| recorded.hash == head) {
            return Ok(());
        }
        let why = "a different hash was recorded for it: the log was rewritten at or before this position";
        Err(Break { position: sequence, why: why.to_owned() })
    }

    /// A recorded head beyond the end of the log: the log was truncated.
    fn missing(&self) -> Option<Break> {
        let (end, _) = self.head();
        let recorded = self
            .expect
            .iter()
            .filter(|recorded| recorded.position > end)
            .min_by_key(|recorded| recorded.position)?;
        let why = format!(
            "events are missing: position {} was recorded, but the log ends at {end}",
            recorded.position
        );
        Some(Break { position: end.saturating_add(1), why })
    }
}

/// The hashed content of an event.
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
    fn recorded_head_parses_as_printed() {
        let hash = Hash::START.to_string();
        assert_eq!(
            format!("7:{hash}").parse(),
            Ok(RecordedHead { position: 7, hash: Hash::START })
        );
        for text in ["", "7", ":", "x:00", &format!("-1:{hash}"), "7:00", &hash] {
            let why = text.parse::<RecordedHead>().unwrap_err();
            assert!(why.contains("POSITION:HASH"), "{text}: {why}");
        }
    }
}
