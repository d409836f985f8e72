//! Runs many plans in parallel and summarises the results.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::learn::Reference;
use super::oracle::judge;
use super::plan::FaultPlan;
use super::run::Story;

/// The folder for failing plans, below the temporary folder.
pub const FAILED_IN: &str = "trueup-plans";

/// The results of many plans.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of plans.
    pub plans: usize,
    /// How often each fault was planned, and how often it had an effect.
    pub faults: BTreeMap<&'static str, (usize, usize)>,
    /// The number of plans of each workload.
    pub workloads: BTreeMap<String, usize>,
    /// The most additional writes of a plan with this fault, and its name.
    pub extra: BTreeMap<&'static str, (usize, String)>,
    /// The number of writes in all plans.
    pub writes: usize,
    /// The number of restarted processes.
    pub restarts: usize,
    /// Plans that failed, with their violations.
    pub failed: Vec<(FaultPlan, Vec<String>)>,
}

impl Summary {
    /// Adds the result of one plan.
    pub fn add(&mut self, reference: &Reference, plan: &FaultPlan, story: &Story) {
        let wrong = judge(reference, plan, story);
        let usual = reference.story.notes.calls.len();
        let extra = story.notes.calls.len().saturating_sub(usual);
        self.plans += 1;
        *self.workloads.entry(plan.workload.clone()).or_default() += 1;
        self.writes += story.notes.calls.len();
        self.restarts += story.restarts;
        for (fault, fired) in plan.faults.iter().zip(&story.fired) {
            let (planned, happened) = self.faults.entry(fault.then.label()).or_default();
            *planned += 1;
            *happened += usize::from(*fired);
            let most = self.extra.entry(fault.then.label()).or_default();
            *most = (extra, plan.name()).max(std::mem::take(most));
        }
        match (&plan.known, wrong.is_empty()) {
            (None, false) => self.failed.push((plan.clone(), wrong)),
            (Some(why), true) => {
                let message = format!("the plan passes; remove its `known` entry ({why})");
                self.failed.push((plan.clone(), vec![message]));
            }
            (None, true) | (Some(_), false) => {}
        }
    }

    /// Writes failing plans to files and returns a report with the commands to rerun them.
    ///
    /// # Panics
    /// A plan cannot be written.
    #[must_use]
    pub fn report_failures(&self, command: &str) -> String {
        let dir = std::env::temp_dir().join(FAILED_IN);
        std::fs::create_dir_all(&dir).expect("a folder for failing plans should be created");
        let mut report = format!("{} of {} plans failed\n", self.failed.len(), self.plans);
        for (number, (plan, wrong)) in self.failed.iter().enumerate() {
            let path: PathBuf = dir.join(format!("{}-{number}.yaml", plan.workload));
            std::fs::write(&path, plan.text()).expect("a plan should be written");
            if number < 25 {
                let first: Vec<&String> = wrong.iter().take(8).collect();
                report.push_str(&format!(
                    "\n--- {}, in {}\n{}violations: {first:#?}\nrerun: TRUEUP_PLAN={} {command}\n",
                    plan.name(),
                    path.display(),
                    plan.text(),
                    path.display()
                ));
            }
        }
        report
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plans, writes, restarts, .. } = self;
        writeln!(f, "{plans} plans, {writes} writes, {restarts} restarts after a crash")?;
        for (fault, (planned, happened)) in &self.faults {
            let (extra, plan) = self.extra.get(fault).cloned().unwrap_or_default();
            let most = format!("at most {extra} more writes, in {plan}");
            writeln!(f, "  {planned:>6} planned, {happened:>6} happened: {fault}; {most}")?;
        }
        for (workload, plans) in &self.workloads {
            writeln!(f, "  {plans:>6} of {workload}")?;
        }
        Ok(())
    }
}

/// Runs plans on this many threads, each against the reference of its workload.
///
/// # Panics
/// A plan names a workload without a reference, or a thread panicked.
#[must_use]
pub fn run_all(
    references: &BTreeMap<String, Reference>,
    plans: &[FaultPlan],
    threads: usize,
    carry_out: impl Fn(&Reference, &FaultPlan) -> Story + Sync,
) -> Summary {
    let summary = Mutex::new(Summary::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let reference = references
                        .get(&plan.workload)
                        .expect("a plan should name a workload with a reference");
                    let story = carry_out(reference, plan);
                    summary.lock().expect("no thread should panic").add(reference, plan, &story);
                }
            });
        }
    });
    summary.into_inner().expect("no thread should panic")
}
