//! The executor under every plan of the harness, in virtual time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trueup_rules::names;
use trueup_testkit::harness::generate::{self, Depth};
use trueup_testkit::harness::learn::{Reference, differences, learn_alone, run_plan_alone};
use trueup_testkit::harness::oracle::judge;
use trueup_testkit::harness::plan::Plan;
use trueup_testkit::harness::suite::run_all;
use trueup_testkit::harness::workload::Workload;

const AGAIN: &str = "cargo test --locked -p trueup-cluster --test it plans::one_plan";

/// What is learned of every workload, or of the one that `TRUEUP_WORKLOAD` names.
fn references() -> BTreeMap<String, Reference> {
    let only = std::env::var("TRUEUP_WORKLOAD").ok();
    Workload::all()
        .into_iter()
        .filter(|workload| only.as_ref().is_none_or(|only| workload.name == only))
        .map(|workload| {
            let reference = learn_alone(workload);
            let wrong = judge(&reference, &nothing(&reference), &reference.story);
            assert!(wrong.is_empty(), "{}: {wrong:#?}", reference.workload.name);
            (reference.workload.name.to_owned(), reference)
        })
        .collect()
}

fn nothing(reference: &Reference) -> Plan {
    Plan {
        workload: reference.workload.name.to_owned(),
        faults: Vec::new(),
        about: String::new(),
        known: None,
    }
}

fn depth(workload: &str) -> Depth {
    match workload {
        "web" => Depth::Whole,
        "game" | "job" | "project" => Depth::Full,
        _ => Depth::Few,
    }
}

/// Plans that once failed, and stay.
fn kept() -> Vec<Plan> {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/plans/executor");
    let files = std::fs::read_dir(dir).expect("plans should be kept");
    let mut paths: Vec<PathBuf> =
        files.map(|file| file.expect("a plan should be there").path()).collect();
    paths.sort();
    paths.iter().map(|path| Plan::read(path).expect("a plan should be read")).collect()
}

#[test]
fn every_fault_at_every_place_ends_like_no_fault_at_all() {
    let references = references();
    let mut plans: Vec<Plan> = references
        .values()
        .flat_map(|reference| generate::plans(reference, depth(reference.workload.name)))
        .collect();
    plans.extend(kept().into_iter().filter(|plan| references.contains_key(&plan.workload)));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let summary = run_all(&references, &plans, threads, run_plan_alone);
    println!("{summary}");
    assert!(summary.failed.is_empty(), "{}", summary.report_failures(AGAIN));
    for (fault, (planned, happened)) in &summary.faults {
        // A run may be a call or two shorter than the one that its plan was made from.
        let missed = planned - happened;
        assert!(
            *happened > 0 && missed <= planned / 50 + 1,
            "{fault}: {planned} planned, {happened} happened"
        );
    }
}

#[test]
fn two_routes_to_one_promise_end_in_one_place() {
    for (what, ways) in Workload::routes() {
        let mut ends = ways.into_iter().map(|way| {
            let reference = learn_alone(way);
            let last = reference.story.stages.last().cloned().unwrap();
            (reference.workload.name, without_generations(last))
        });
        let (direct, expected) = ends.next().unwrap();
        for (detour, end) in ends {
            let wrong = differences(&json!(expected), &json!(end), String::new());
            assert!(wrong.is_empty(), "{what}: {direct} and {detour} differ at {wrong:#?}");
        }
    }
}

/// Which generation wrote an object last depends on the way; digests and anchors say so.
fn without_generations(mut stage: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for (key, object) in &mut stage {
        let mut forget = |fields: &str, name: &str| {
            if let Some(fields) = object.pointer_mut(fields).and_then(Value::as_object_mut) {
                fields.remove(name);
            }
        };
        forget("/metadata/labels", names::GENERATION_LABEL);
        forget("/metadata/annotations", names::DIGEST_ANNOTATION);
        if key.contains("-anchor-") {
            forget("", "data");
            forget("/metadata", "annotations");
        }
    }
    stage
}

/// Runs the plan in the file that `TRUEUP_PLAN` names, and says everything about it.
#[test]
fn one_plan() {
    let Ok(path) = std::env::var("TRUEUP_PLAN") else { return };
    let plan = Plan::read(Path::new(&path)).unwrap();
    let workload = Workload::named(&plan.workload).expect("a workload");
    let reference = learn_alone(workload);
    let story = run_plan_alone(&reference, &plan);
    for call in &story.notes.calls {
        println!(
            "step {}: {} → {} ({:?})",
            call.step,
            call.title(),
            call.heard,
            call.effect.is_some()
        );
    }
    let wrong = judge(&reference, &plan, &story);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
