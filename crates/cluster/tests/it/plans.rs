//! The executor under fault plans of the harness, in virtual time: a fixed sample of them, or all.
//!
//! `TRUEUP_ALL_PLANS=1` runs all plans. `TRUEUP_WORKLOAD=NAME` runs only that workload.
//! `TRUEUP_PLAN` with the name or file of a plan and the ignored test `one_plan` run one plan and
//! print its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use trueup_testkit::harness::generate::{self, Depth};
use trueup_testkit::harness::learn::{Reference, learn_alone, learn_bare, run_plan_alone};
use trueup_testkit::harness::oracle::judge;
use trueup_testkit::harness::plan::{FaultPlan, Trigger};
use trueup_testkit::harness::sample::{classes, sample};
use trueup_testkit::harness::sound::unsound;
use trueup_testkit::harness::stage::{compare, without_generations};
use trueup_testkit::harness::suite::run_all;
use trueup_testkit::harness::workload::Workload;

const AGAIN: &str =
    "cargo test --locked -p trueup-cluster --test it plans::one_plan -- --ignored --nocapture";

/// Reference runs of every workload, or of the one that `TRUEUP_WORKLOAD` names. Each is checked by
/// itself before any plan is compared with it.
fn references() -> BTreeMap<String, Reference> {
    let only = std::env::var("TRUEUP_WORKLOAD").ok();
    let (project, nothing) = learn_bare();
    let chosen = Workload::all()
        .into_iter()
        .filter(|workload| only.as_ref().is_none_or(|only| workload.name == only));
    let references: BTreeMap<String, Reference> = chosen
        .map(|workload| {
            let reference = learn_alone(workload);
            let mut wrong = unsound(&reference, &project, &nothing);
            wrong.extend(judge(&reference, &without_faults(&reference), &reference.story));
            assert!(wrong.is_empty(), "{}: {wrong:#?}", reference.workload.name);
            (reference.workload.name.to_owned(), reference)
        })
        .collect();
    assert!(!references.is_empty(), "there is no workload {only:?}");
    references
}

fn without_faults(reference: &Reference) -> FaultPlan {
    FaultPlan {
        workload: reference.workload.name.to_owned(),
        faults: Vec::new(),
        about: String::new(),
        known: None,
    }
}

fn depth(workload: &str) -> Depth {
    match workload {
        "web" => Depth::Whole,
        "game" | "job" | "project" | "slow-web" => Depth::Full,
        _ => Depth::Few,
    }
}

/// Plans that once failed, kept as regression tests.
fn kept() -> Vec<FaultPlan> {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/plans/executor");
    let files = std::fs::read_dir(dir).expect("plans should be kept");
    let mut paths: Vec<PathBuf> =
        files.map(|file| file.expect("a plan should be there").path()).collect();
    paths.sort();
    paths.iter().map(|path| FaultPlan::read(path).expect("a plan should be read")).collect()
}

fn all_plans(references: &BTreeMap<String, Reference>) -> Vec<FaultPlan> {
    let plans = references
        .values()
        .flat_map(|reference| generate::plans(reference, depth(reference.workload.name)));
    plans.collect()
}

/// The sample of these plans that always runs, or all of them if requested.
fn chosen(all: Vec<FaultPlan>, references: &BTreeMap<String, Reference>) -> Vec<FaultPlan> {
    if std::env::var("TRUEUP_ALL_PLANS").is_ok_and(|all| all == "1") {
        return all;
    }
    let plans = sample(&all);
    let missing: Vec<_> =
        classes(&all).into_keys().filter(|class| !classes(&plans).contains_key(class)).collect();
    assert!(missing.is_empty(), "the sample has no plan of these classes: {missing:?}");
    let workloads: BTreeSet<&String> = plans.iter().map(|plan| &plan.workload).collect();
    assert!(workloads.into_iter().eq(references.keys()), "every workload has plans");
    plans
}

#[test]
fn every_fault_at_every_place_ends_in_the_fault_free_state() {
    let references = references();
    let all = all_plans(&references);
    let names: BTreeSet<String> = all.iter().map(FaultPlan::name).collect();
    assert_eq!(names.len(), all.len(), "plan names are unique");
    let number = all.len();
    let mut plans = chosen(all, &references);
    println!("{} of {number} plans, of {} workloads", plans.len(), references.len());
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
            "{fault}: {planned} planned, {happened} had an effect"
        );
    }
}

#[test]
fn different_routes_to_one_spec_end_in_the_same_state() {
    for (what, ways) in Workload::routes() {
        let mut ends = ways.into_iter().map(|way| {
            let reference = learn_alone(way);
            let (name, story) = (reference.workload.name, reference.story);
            assert!(story.wrong.is_empty(), "{name}: {:#?}", story.wrong);
            assert_eq!(story.stages.len(), reference.workload.steps.len(), "{name} ends early");
            (name, without_generations(story.stages.last().unwrap()))
        });
        let (direct, expected) = ends.next().unwrap();
        for (detour, end) in ends {
            let wrong = compare(&expected, &end);
            assert!(wrong.is_empty(), "{what}: {direct} and {detour} differ: {wrong:#?}");
        }
    }
}

/// The plan that `TRUEUP_PLAN` names, by its name or its file.
fn named_plan() -> (Reference, FaultPlan) {
    let wanted = std::env::var("TRUEUP_PLAN").expect("TRUEUP_PLAN should name a plan or its file");
    let read = FaultPlan::read(Path::new(&wanted)).ok();
    let named = wanted.split('/').next().unwrap_or_default();
    let workload = read.as_ref().map_or(named, |plan| &plan.workload);
    let reference = learn_alone(Workload::named(workload).expect("a workload should be named"));
    let plans = generate::plans(&reference, depth(workload));
    let plan = read.or_else(|| plans.into_iter().find(|plan| plan.name() == wanted));
    (reference, plan.expect("there should be a plan of this name"))
}

/// Runs the plan that `TRUEUP_PLAN` names, and prints its calls.
#[test]
#[ignore = "runs one plan by hand: TRUEUP_PLAN says which"]
fn one_plan() {
    let (reference, plan) = named_plan();
    let story = run_plan_alone(&reference, &plan);
    for (step, at) in &story.notes.order {
        match at {
            Trigger::Write(number) => {
                let call = &story.notes.calls[*number - 1];
                println!(
                    "step {step}: {:>6} ms: write {number}: {} → {}, changed: {}",
                    call.at.as_millis(),
                    call.title(),
                    call.heard,
                    call.effect.is_some()
                );
            }
            at => println!("step {step}: {at:?}"),
        }
    }
    let wrong = judge(&reference, &plan, &story);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
