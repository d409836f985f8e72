//! Checks on the source of the crate: each worker function is tested, each write names an org, and
//! each write of the app runs in the frame.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::stage::Stage;
use crate::system::tenant_tables;

/// Functions that `system.rs` calls for one org, checking the rows of another.
const TESTED: &[&str] = &[
    "accrue",
    "apply_limits",
    "meter",
    "mark_wake_dead",
    "claim_confirmations",
    "claim_dns_checks",
    "claim_provider_domains",
    "note_provider_failure",
    "record_provider_dns_check",
    "claim_orders",
    "expire_proposals",
    "finish_preview",
    "finish_check",
    "finish_wakes",
    "purge_previews",
    "purge_divergences",
    "purge_idempotency_keys",
    "note_contested",
    "record_dns_check",
    "record_preview_checks",
    "reject_proposal",
    "note_transitions",
    "poison_wake",
    "requeue_lost",
    "retry_wake",
    "seal_events",
    "record_reports_once",
    "unsealed_events",
    "wake_all",
    "wake_units",
];

/// Functions that write no tenant rows: `system.rs` calls them and checks the rows of all orgs.
const OTHERS: &[&str] = &[
    "balance_capacity",
    "orgs_to_accrue",
    "orgs_to_limit",
    "periods_to_close",
    "record_watermarks",
    "running_services",
    "watermarks",
    "accepted_at",
    "reproject_statuses",
    "pending_previews",
    "requested_removals",
    "end_removal",
    "find_freeze",
    "freshness",
    "record_watches",
    "record_reachability",
    "unreachable_since",
    "waiting_proposals",
    "due_schedules",
    "next_schedule",
    "rearm_schedules",
    "order_marks",
    "lane_loads",
    "listen",
    "note_cluster",
    "next_confirmation",
    "next_dns_check",
    "note_findings",
    "open_previews",
    "recognise_cluster",
    "overdue_deletes",
    "release_lease",
    "renew_lease",
    "ring",
];

/// Constructors, and acquiring a lease, which requeues all claims of a cluster, of every org.
const APART: [&str; 3] = ["acquire_lease", "connect", "connect_within"];

/// The text of each source file of this crate.
fn sources(dir: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            texts.extend(sources(&entry.path()));
        } else {
            texts.push(fs::read_to_string(entry.path()).unwrap());
        }
    }
    texts
}

fn crate_sources() -> Vec<String> {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

/// S17: a new worker function must be tested, or listed as writing no tenant rows.
#[test]
fn s17_every_worker_function_is_listed() {
    let mut found = BTreeSet::new();
    for source in crate_sources() {
        let mut inside = false;
        for line in source.lines() {
            if line.starts_with("impl") {
                inside = line.starts_with("impl Worker");
            }
            let declared =
                line.strip_prefix("    pub ").map(|line| line.trim_start_matches("async "));
            let name = declared.and_then(|line| line.strip_prefix("fn ")?.split(['(', '<']).next());
            found.extend(name.filter(|_| inside).map(str::to_owned));
        }
    }
    let listed: BTreeSet<String> =
        TESTED.iter().chain(OTHERS).chain(&APART).map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "the worker functions, and those that are listed here");
    let tests =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/system.rs"));
    let tests = tests.unwrap();
    let uncalled: Vec<_> = TESTED
        .iter()
        .chain(OTHERS)
        .filter(|name| !tests.contains(&format!("worker.{name}(")))
        .collect();
    assert!(uncalled.is_empty(), "listed as tested but not called by system.rs: {uncalled:?}");
}

/// S17: a statement that updates or deletes tenant rows names the org, or an id that belongs to
/// one.
#[tokio::test]
async fn s17_every_write_names_the_org_of_its_rows() {
    const NAMES: [&str; 7] =
        ["org_id", "trueup_org", "id", "service_id", "project_id", "subject_id", "endpoint_id"];
    let stage = Stage::new().await;
    let tables = tenant_tables(&stage).await;
    let (mut checked, mut loose) = (0, Vec::new());
    for statement in crate_sources().iter().flat_map(|source| literals(source)) {
        let words: Vec<&str> = statement
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| !word.is_empty())
            .collect();
        for (place, pair) in words.windows(3).enumerate() {
            let table = match pair {
                ["update", table, _] | ["delete", "from", table] => *table,
                _ => continue,
            };
            if !tables.iter().any(|tenant| tenant == table) {
                continue;
            }
            checked += 1;
            let means = words[place..].iter().skip_while(|word| **word != "where");
            if !means.clone().any(|word| NAMES.contains(word)) {
                loose.push(table.to_owned());
            }
        }
    }
    loose.sort();
    // The sealer's queue by sequence number, expired keys, heads and gaps by uid, and the claims of a
    // former lease holder; what belongs to a user or a provider, which row-level security limits to the
    // org; and sign-ins with a provider, by their secret.
    let expected = [
        "event_queue",
        "idempotency_keys",
        "identities",
        "memberships",
        "memberships",
        "memberships",
        "memberships",
        "provider_domains",
        "provider_domains",
        "provider_sign_ins",
        "role_bindings",
        "transition_heads",
        "usage_gaps",
        "wakes",
    ];
    assert_eq!(loose, expected);
    assert!(checked > 30, "{checked} writes were found");
}

/// A write of the app ends in the frame of all writes, so that it has retries, an idempotency key and
/// a dry run. The only others are those that no request asks for.
#[test]
fn every_write_of_the_app_runs_in_the_frame() {
    let (mut commits, mut ends) = (BTreeSet::new(), 0);
    for source in crate_sources() {
        let (mut inside, mut function) = (false, String::new());
        for line in source.lines() {
            if line.starts_with("impl") {
                inside = line.starts_with("impl App");
            }
            if let Some((_, declared)) = line.split_once(" fn ") {
                declared.split(['(', '<']).next().unwrap_or_default().clone_into(&mut function);
            }
            if inside && line.contains(".commit()") {
                commits.insert(function.clone());
            }
            ends += usize::from(line.contains("app.end(") || line.contains("self.end("));
        }
    }
    // The frame; what is noted about sessions, failed sign-ins and those that a provider decides; a reader's
    // request for a repair.
    let expected = [
        "count_sign_in",
        "end",
        "forgive_sign_ins",
        "keep_provider_sign_in",
        "note_session_use",
        "note_use",
        "repair_service",
        "take_provider_sign_in",
    ]
    .map(str::to_owned);
    assert_eq!(commits, BTreeSet::from(expected), "functions of the app that commit");
    assert_eq!(ends, 1, "only `Write::finish` calls `App::end`");
}

/// The string literals in a source file.
pub(crate) fn literals(source: &str) -> Vec<String> {
    let code: Vec<&str> =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n").replace("'\"'", "").replace("\\\"", "'");
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
