//! The platform's rules for every spec: the last check before it is accepted.
//!
//! A template's own constraints are set by its publisher. A spec that passes here is one that the
//! cluster accepts.

use std::collections::BTreeSet;

use trueup_model::spec::{Autoscale, MAX_PODS, Port, Probe, Spec, Workload};

use crate::admit::variable::MOST_IN_SPEC;
use crate::admit::{image, schedule};

/// One thing that is wrong with a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, as a JSON pointer.
    pub place: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// The longest word of a command, and the longest value of a variable.
const LONGEST_TEXT: usize = 32 * 1024;

/// How many words a command and its arguments may have, each.
const MOST_WORDS: usize = 200;

/// Everything that is wrong with a spec.
#[must_use]
pub fn check(spec: &Spec) -> Vec<Fault> {
    let mut faults = Faults(Vec::new());
    faults.note("/image", image::parse(&spec.image).err());
    check_runs(spec, &mut faults);
    check_autoscale(spec, &mut faults);
    check_words("/command", &spec.command, &mut faults);
    check_words("/args", &spec.args, &mut faults);
    check_ports(&spec.ports, &mut faults);
    check_variables(spec, &mut faults);
    check_volume(spec, &mut faults);
    check_scratch(spec, &mut faults);
    check_probe(spec, &mut faults);
    if spec.resources.cpu_millis == 0 {
        faults.add("/resources/cpu_millis", "must be at least 1");
    }
    if spec.resources.memory_mib == 0 {
        faults.add("/resources/memory_mib", "must be at least 1");
    }
    faults.0
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault { place: place.into(), message: message.into() });
    }

    fn note(&mut self, place: &str, message: Option<String>) {
        if let Some(message) = message {
            self.add(place, message);
        }
    }
}

/// Only a cron has a schedule, and a workload that ends has no ports and one pod.
fn check_runs(spec: &Spec, faults: &mut Faults) {
    let ends = match spec.workload {
        Workload::CronJob | Workload::Job => true,
        Workload::Deployment | Workload::StatefulSet => false,
    };
    match (&spec.schedule, spec.workload) {
        (Some(text), Workload::CronJob) => faults.note("/schedule", schedule::check(text).err()),
        (None, Workload::CronJob) => faults.add("/schedule", "is required for a cron_job"),
        (Some(_), Workload::Deployment | Workload::StatefulSet | Workload::Job) => {
            faults.add("/schedule", "is only for a cron_job; leave it out");
        }
        (None, Workload::Deployment | Workload::StatefulSet | Workload::Job) => {}
    }
    if ends && !spec.ports.is_empty() {
        faults.add("/ports", "must be empty: a cron_job or a job serves no requests");
    }
    if ends && spec.replicas != 1 {
        faults.add("/replicas", "must be 1: runs do not overlap");
    }
    if !ends && (spec.retries > 0 || spec.time_limit_s.is_some()) {
        faults.add("/retries", "retries and time_limit_s are only for a cron_job or a job");
    }
    if spec.time_limit_s == Some(0) {
        faults.add("/time_limit_s", "must be at least 1");
    }
}

/// Only a Deployment can be autoscaled: its pods are alike and have no disk of their own.
fn check_autoscale(spec: &Spec, faults: &mut Faults) {
    let Some(Autoscale { min, max, cpu_percent }) = spec.autoscale else {
        return;
    };
    if spec.workload != Workload::Deployment {
        faults.add("/autoscale", "is only for a deployment; leave it out");
    }
    if min == 0 {
        faults.add("/autoscale/min", "must be at least 1; pause a service to have no pods");
    }
    if max < min || max > MAX_PODS {
        let message = format!("must be from {min}, the fewest pods, to {MAX_PODS}");
        faults.add("/autoscale/max", message);
    }
    if !(1..=100).contains(&cpu_percent) {
        faults.add("/autoscale/cpu_percent", "must be from 1 to 100");
    }
}

fn check_words(place: &str, words: &[String], faults: &mut Faults) {
    if words.len() > MOST_WORDS {
        faults.add(place, format!("must have at most {MOST_WORDS} words"));
    }
    if words.iter().any(|word| word.len() > LONGEST_TEXT || word.contains('\0')) {
        faults.add(place, "must have words of at most 32 KiB and without NUL");
    }
}

fn check_ports(ports: &[Port], faults: &mut Faults) {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        if !is_port_name(&port.name) {
            let message = "must have 1 to 15 of a-z, 0-9 and '-', with a letter among them";
            faults.add(format!("/ports/{index}/name"), message);
        }
        if !names.insert(&port.name) {
            faults.add(format!("/ports/{index}/name"), "is already used by another port");
        }
        let transport = matches!(port.protocol, trueup_model::spec::Protocol::Tcp);
        if port.port == 0 || !numbers.insert((port.port, transport)) {
            faults.add(format!("/ports/{index}/port"), "must be from 1 to 65535, each once");
        }
    }
}

fn is_port_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && name.bytes().any(|b| b.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Whether a name is a POSIX variable name.
pub(crate) fn is_variable(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
}

fn check_variables(spec: &Spec, faults: &mut Faults) {
    let no_name =
        |name: &str| format!("`{name}` is not a valid variable name: use letters, digits and '_'");
    for (name, value) in &spec.variables {
        let place = format!("/variables/{}", name.replace('~', "~0").replace('/', "~1"));
        if !is_variable(name) {
            faults.add(&place, no_name(name));
        }
        if value.len() > LONGEST_TEXT || value.contains('\0') {
            let message = format!("the value of `{name}` must be at most 32 KiB and without NUL");
            faults.add(&place, message);
        }
        if spec.generated_secrets.contains(name) {
            let message =
                format!("`{name}` is a secret that Trueup generates; choose another name");
            faults.add(&place, message);
        }
    }
    if spec.variables.values().map(String::len).sum::<usize>() > MOST_IN_SPEC {
        faults.add("/variables", "must have at most 512 KiB together");
    }
    for name in spec.generated_secrets.iter().filter(|name| !is_variable(name)) {
        faults.add("/generated_secrets", no_name(name));
    }
}

fn check_volume(spec: &Spec, faults: &mut Faults) {
    let Some(volume) = &spec.volume else {
        return;
    };
    if spec.workload == Workload::Deployment {
        let message = "a deployment's pods cannot share a disk; use a stateful_set";
        faults.add("/volume", message);
    }
    if volume.size_gib == 0 {
        faults.add("/volume/size_gib", "must be at least 1");
    }
    if !is_mount_path(&volume.path) {
        faults.add("/volume/path", "must be an absolute path below `/`, such as `/data`");
    }
}

fn is_mount_path(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    path.starts_with('/')
        && path.len() <= 255
        && parts.all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains(|c: char| c.is_control() || c == ':')
}

/// The most folders of scratch space.
const MOST_SCRATCH: usize = 8;
/// The most scratch space in one folder: a TiB.
const MOST_SCRATCH_MIB: u32 = 1 << 20;

fn check_scratch(spec: &Spec, faults: &mut Faults) {
    if spec.scratch.len() > MOST_SCRATCH {
        faults.add("/scratch", format!("must have at most {MOST_SCRATCH} folders"));
    }
    let mut paths: BTreeSet<&str> = spec.volume.iter().map(|one| one.path.as_str()).collect();
    for (index, scratch) in spec.scratch.iter().enumerate() {
        if !is_mount_path(&scratch.path) {
            let message = "must be an absolute path below `/`, such as `/tmp`";
            faults.add(format!("/scratch/{index}/path"), message);
        }
        if !paths.insert(&scratch.path) {
            faults.add(format!("/scratch/{index}/path"), "is already mounted; keep one");
        }
        if scratch.size_mib == 0 || scratch.size_mib > MOST_SCRATCH_MIB {
            let message = format!("must be from 1 to {MOST_SCRATCH_MIB}");
            faults.add(format!("/scratch/{index}/size_mib"), message);
        }
    }
}

fn check_probe(spec: &Spec, faults: &mut Faults) {
    let Some(probe) = &spec.probe else {
        return;
    };
    if spec.ports.is_empty() {
        faults.add("/probe", "needs a port; add one or leave the probe out");
    }
    if let Probe::Http { path } = probe
        && (!path.starts_with('/') || path.len() > 1024 || path.contains(char::is_control))
    {
        faults.add("/probe/http/path", "must begin with `/` and have at most 1024 characters");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn faults(change: &Value) -> Vec<String> {
        let mut spec = json!({
            "workload": "deployment", "image": "web:1", "replicas": 1,
            "ports": [{"name": "http", "port": 80}], "probe": "tcp",
            "resources": {"cpu_millis": 100, "memory_mib": 64},
        });
        for (name, value) in change.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        let spec: Spec = serde_json::from_value(spec).expect("a spec");
        check(&spec).into_iter().map(|fault| fault.place).collect()
    }

    #[test]
    fn a_good_spec_has_no_fault() {
        assert_eq!(faults(&json!({})), Vec::<String>::new());
        let cron = json!({"workload": "cron_job", "ports": [], "probe": null,
                          "schedule": "0 3 * * *", "retries": 2, "time_limit_s": 60});
        assert_eq!(faults(&cron), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_found_at_its_pointer() {
        let port = |name: &str, port: u16| json!({"name": name, "port": port});
        let table = [
            (json!({"image": "no image"}), "/image"),
            (json!({"schedule": "0 3 * * *"}), "/schedule"),
            (json!({"workload": "cron_job", "ports": [], "probe": null}), "/schedule"),
            (json!({"workload": "job", "probe": null}), "/ports"),
            (json!({"workload": "job", "ports": [], "probe": null, "replicas": 2}), "/replicas"),
            (json!({"retries": 1}), "/retries"),
            (json!({"autoscale": {"min": 0, "max": 2, "cpu_percent": 70}}), "/autoscale/min"),
            (json!({"autoscale": {"min": 3, "max": 2, "cpu_percent": 70}}), "/autoscale/max"),
            (json!({"autoscale": {"min": 1, "max": 1001, "cpu_percent": 70}}), "/autoscale/max"),
            (
                json!({"autoscale": {"min": 1, "max": 2, "cpu_percent": 0}}),
                "/autoscale/cpu_percent",
            ),
            (
                json!({"workload": "stateful_set", "autoscale": {"min": 1, "max": 2, "cpu_percent": 70}}),
                "/autoscale",
            ),
            (json!({"args": ["a\u{0}"]}), "/args"),
            (json!({"command": vec!["a"; 201]}), "/command"),
            (json!({"ports": [port("HTTP", 80)]}), "/ports/0/name"),
            (json!({"ports": [port("80", 80)]}), "/ports/0/name"),
            (json!({"ports": [port("a", 80), port("a", 81)]}), "/ports/1/name"),
            (json!({"ports": [port("a", 80), port("b", 80)]}), "/ports/1/port"),
            (json!({"ports": [port("a", 0)]}), "/ports/0/port"),
            (json!({"variables": {"A B": ""}}), "/variables/A B"),
            (json!({"variables": {"K": ""}, "generated_secrets": ["K"]}), "/variables/K"),
            (json!({"generated_secrets": ["a-b"]}), "/generated_secrets"),
            (json!({"volume": {"size_gib": 1, "path": "/data"}}), "/volume"),
            (json!({"scratch": [{"size_mib": 0, "path": "/tmp"}]}), "/scratch/0/size_mib"),
            (json!({"scratch": [{"size_mib": 1_048_577, "path": "/tmp"}]}), "/scratch/0/size_mib"),
            (
                json!({"scratch": [{"size_mib": 1, "path": "/a"}, {"size_mib": 2, "path": "/a"}]}),
                "/scratch/1/path",
            ),
            (json!({"ports": []}), "/probe"),
            (json!({"probe": {"http": {"path": "health"}}}), "/probe/http/path"),
            (json!({"resources": {"cpu_millis": 0, "memory_mib": 1}}), "/resources/cpu_millis"),
        ];
        for (change, place) in table {
            assert_eq!(faults(&change), [place], "{change}");
        }
        for path in ["data", "/", "/a/../b", "/a//b", "/a:b", "/a\n", "/."] {
            let set = json!({"workload": "stateful_set", "volume": {"size_gib": 1, "path": path}});
            assert_eq!(faults(&set), ["/volume/path"], "{path:?}");
            let set = json!({"scratch": [{"size_mib": 1, "path": path}]});
            assert_eq!(faults(&set), ["/scratch/0/path"], "{path:?}");
        }
    }
}
