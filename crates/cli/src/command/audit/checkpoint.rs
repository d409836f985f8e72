//! Checkpoints in files: exporting one, and reading the ones that were kept.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use trueup_api::Client;
use trueup_api::audit::Checkpoint;
use trueup_model::OrgId;
use trueup_rules::event::chain::Hash;
use trueup_rules::event::checkpoint::{self, PublicKey};

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};

/// A checkpoint from a file, whose signature is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) org: OrgId,
    pub(super) position: i64,
    pub(super) hash: Hash,
    pub(super) signed_at: Timestamp,
    key: PublicKey,
}

/// Prints a checkpoint, or writes it to a new file.
pub(super) async fn export(file: Option<&Path>, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let checkpoint = context.wait("signing a checkpoint", client.audit_checkpoint()).await?;
    let text = serde_json::to_string_pretty(&checkpoint)?;
    let Some(file) = file else {
        context.terminal.line(&text)?;
        return Ok(Exit::Ok);
    };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("cannot write {}: {why}", file.display()))
            .hint("name a file that does not exist yet")
    };
    let mut new = fs::OpenOptions::new();
    let mut new = new.write(true).create_new(true).open(file).map_err(|error| wrong(&error))?;
    std::io::Write::write_all(&mut new, format!("{text}\n").as_bytes())
        .map_err(|error| wrong(&error))?;
    let Checkpoint { sequence, key, .. } = &checkpoint;
    let written = file.display();
    context.terminal.note(&format!(
        "checkpoint at position {sequence} in {written}; keep it where this install cannot change it\n\
         signed by {key}"
    ))?;
    Ok(Exit::Ok)
}

/// Reads checkpoints that were kept. Their signatures must be valid, and by the server's key.
pub(super) async fn read(files: &[impl AsRef<Path>], client: &Client) -> anyhow::Result<Vec<Kept>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let published = client.audit_key().await?.key;
    let kept = files.iter().map(|file| {
        let file = file.as_ref();
        let text = fs::read_to_string(file).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot read {}: {error}", file.display()))
        })?;
        let kept = parse(&text).map_err(|why| {
            Failure::new(Exit::Failed, format!("{}: {why}", file.display()))
                .hint("use the file as `trueup audit checkpoint` wrote it")
        })?;
        if kept.key.to_string() != published {
            let why = format!("{}: signed by {}, which is not the server's key", file.display(), kept.key);
            let hint = "it is of another install, or the server's master key was replaced: then the \
                        checkpoint proves nothing about this log";
            return Err(Failure::new(Exit::Failed, why).hint(hint).into());
        }
        Ok(kept)
    });
    kept.collect()
}

fn parse(text: &str) -> Result<Kept, String> {
    let sent: Checkpoint =
        serde_json::from_str(text).map_err(|error| format!("is not a checkpoint ({error})"))?;
    let unreadable = |what: &str| format!("is not a checkpoint (its {what} cannot be read)");
    let org = sent.orgid.parse().map_err(|_| unreadable("orgid"))?;
    let position = sent.sequence.parse().map_err(|_| unreadable("sequence"))?;
    let hash = sent.hash.parse().map_err(|_| unreadable("hash"))?;
    let key = PublicKey::parse(&sent.key).ok_or_else(|| unreadable("key"))?;
    let signed = checkpoint::Checkpoint { org, position, hash, at: sent.time };
    if !signed.is_signed(&key, &sent.signature) {
        return Err("its signature is not valid, so it was changed after it was signed".to_owned());
    }
    Ok(Kept { org, position, hash, signed_at: sent.time, key })
}

#[cfg(test)]
mod tests {
    use trueup_rules::event::checkpoint::CheckpointKey;

    use super::*;

    #[test]
    fn changed_checkpoint_is_refused() {
        let key = CheckpointKey::new(&[7; 32]);
        let org = "org_01kwrynvz2e7sbqyd0c2t4ba2n";
        let org: OrgId = org.parse().unwrap_or(trueup_model::org::PLATFORM);
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let signed = checkpoint::Checkpoint { org, position: 3, hash: Hash::START, at };
        let file = Checkpoint {
            orgid: org.to_string(),
            sequence: "3".to_owned(),
            hash: Hash::START.to_string(),
            time: at,
            key: key.public().to_string(),
            signature: key.sign(&signed),
        };
        let text = |file: &Checkpoint| serde_json::to_string(file).unwrap();
        let kept = parse(&text(&file)).unwrap();
        assert_eq!((kept.org, kept.position, kept.hash, kept.signed_at), (org, 3, Hash::START, at));
        for changed in [
            Checkpoint { sequence: "4".to_owned(), ..file.clone() },
            Checkpoint { hash: "ab".repeat(32), ..file.clone() },
            Checkpoint { key: CheckpointKey::new(&[8; 32]).public().to_string(), ..file },
        ] {
            let why = parse(&text(&changed)).unwrap_err();
            assert!(why.contains("signature"), "{why}");
        }
        assert!(parse("{}").unwrap_err().contains("not a checkpoint"));
    }
}
