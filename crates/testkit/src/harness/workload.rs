//! Workloads: user requests, and foreign changes to the cluster.

use std::time::Duration;

use serde_json::{Map, Value, json};
use trueup_model::drift::{AdoptMode, DriftPolicy, Verdict};
use trueup_model::key::Kind;
use trueup_model::spec::Spec;
use trueup_model::template::Template;
use trueup_rules::admit::template::resolve;

/// A list of steps. Each begins when the previous one has converged.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its name in plans.
    pub name: &'static str,
    /// Its steps.
    pub steps: Vec<WorkloadStep>,
    /// The period of the cluster's controllers; `None` runs them at once.
    pub controllers: Option<Duration>,
    /// The drift policy of its services.
    pub drift: DriftPolicy,
}

/// No policy: every difference is reverted.
const ENFORCED: DriftPolicy = DriftPolicy { verdict: None, adopt: None, rules: Vec::new() };

/// The period of slow controllers, so that steps meet a rollout in progress.
const SLOW: Duration = Duration::from_secs(7);

/// One user request or foreign change.
#[derive(Debug, Clone)]
pub enum WorkloadStep {
    /// Declare the service.
    Declare(Shape),
    /// Pause the service.
    Pause,
    /// Resume the service.
    Resume,
    /// Route exactly these hosts to the service.
    Route(&'static [&'static str]),
    /// Delete the service.
    Delete,
    /// Delete the project and everything in it.
    DeleteProject,
    /// A foreign writer deletes the service's objects of these kinds, all at once.
    ForeignDelete(&'static [Kind]),
    /// A foreign writer sets this field (a JSON pointer) in the service's objects of this kind.
    ForeignEdit(Kind, &'static str, Value),
    /// A foreign writer adds an entry to this list (a JSON pointer) in objects of this kind.
    ForeignAdd(Kind, &'static str, Value),
    /// A foreign writer deletes the project's namespace.
    ForeignDeleteNamespace,
    /// No request: wait until the project has converged.
    Rest,
    /// The same for a second service in the same project.
    Neighbour(Box<Self>),
    /// The same, but the next step does not wait for it.
    Hasty(Box<Self>),
}

impl WorkloadStep {
    /// The step without [`Self::Hasty`].
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::Hasty(step) => step.inner(),
            step => step,
        }
    }
}

/// A shipped template and its parameters.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The template.
    pub template: &'static str,
    /// The parameters.
    pub parameters: Value,
    /// Overrides in the resolved spec, for fields that no shipped template sets.
    pub over: Value,
}

/// Every template that a workload uses.
pub const TEMPLATES: [(&str, &str); 5] = [
    ("web", include_str!("../../../../templates/web.yaml")),
    ("worker", include_str!("../../../../templates/worker.yaml")),
    ("minecraft", include_str!("../../../../templates/minecraft.yaml")),
    ("job", include_str!("../../../../templates/job.yaml")),
    ("cron", include_str!("../../../../templates/cron.yaml")),
];

impl Shape {
    /// The parameters as a map.
    #[must_use]
    pub fn given(&self) -> Map<String, Value> {
        self.parameters.as_object().cloned().unwrap_or_default()
    }

    /// The resolved spec.
    #[must_use]
    pub fn spec(&self) -> Spec {
        let (_, text) = TEMPLATES
            .into_iter()
            .find(|(name, _)| *name == self.template)
            .expect("a workload should name a known template");
        let template: Template =
            serde_saphyr::from_str(text).expect("a template should be valid YAML");
        let spec =
            resolve(&template, &self.given()).expect("a workload's parameters should be valid");
        let mut spec = serde_json::to_value(spec).expect("a spec should become JSON");
        for (name, value) in self.over.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        serde_json::from_value(spec).expect("a workload's spec should be valid")
    }
}

fn shape(template: &'static str, parameters: Value) -> WorkloadStep {
    WorkloadStep::Declare(Shape { template, parameters, over: json!({}) })
}

fn web(image: &str, replicas: u32) -> WorkloadStep {
    shape("web", json!({ "image": image, "replicas": replicas }))
}

fn game(difficulty: &str) -> WorkloadStep {
    shape("minecraft", json!({ "difficulty": difficulty, "world_gib": 1 }))
}

/// A web service with every optional field of the spec set.
fn everything() -> WorkloadStep {
    WorkloadStep::Declare(Shape {
        template: "web",
        parameters: json!({ "image": "web:1", "replicas": 2, "variables": { "A": "1", "B": "2" } }),
        over: json!({
            "command": ["/bin/web"], "args": ["--all"], "restart": 1,
            "generated_secrets": ["APP_KEY", "EXTRA_KEY"],
            "ports": [{ "name": "http", "port": 8080 }, { "name": "admin", "port": 9090 }],
        }),
    })
}

fn worker(replicas: u32) -> WorkloadStep {
    shape("worker", json!({ "image": "work:1", "replicas": replicas }))
}

fn neighbour(step: WorkloadStep) -> WorkloadStep {
    WorkloadStep::Neighbour(Box::new(step))
}

fn hasty(step: WorkloadStep) -> WorkloadStep {
    WorkloadStep::Hasty(Box::new(step))
}

impl Workload {
    const fn new(name: &'static str, steps: Vec<WorkloadStep>) -> Self {
        Self { name, steps, controllers: None, drift: ENFORCED }
    }

    /// A workload with slow controllers.
    const fn slow(name: &'static str, steps: Vec<WorkloadStep>) -> Self {
        Self { name, steps, controllers: Some(SLOW), drift: ENFORCED }
    }

    /// Whether some step does not wait for the previous one.
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, WorkloadStep::Hasty(_)))
    }

    /// Whether there are two services; they converge concurrently, in no fixed order.
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.inner(), WorkloadStep::Neighbour(_)))
    }

    /// Whether values of foreign writers stay.
    #[must_use]
    pub const fn keeps_foreign_values(&self) -> bool {
        match (self.drift.verdict, self.drift.adopt) {
            (Some(Verdict::Ignore), _)
            | (Some(Verdict::Adopt), Some(AdoptMode::Keep | AdoptMode::Automatic)) => true,
            (Some(Verdict::Adopt), Some(AdoptMode::Propose) | None)
            | (Some(Verdict::Enforce) | None, _) => false,
        }
    }

    /// A project with nothing in it.
    #[must_use]
    pub fn bare() -> Self {
        Self::new("bare", vec![WorkloadStep::Rest])
    }

    /// The workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|workload| workload.name == name)
    }

    /// All workloads that get plans.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Self::lifecycles();
        all.extend(Self::storms());
        all.extend(Self::verdicts());
        all.extend(Self::neighbours());
        all.extend(Self::rollouts());
        let routes = Self::routes().into_iter().flat_map(|(_, routes)| routes);
        all.extend(routes.filter(|route| matches!(route.name, "detour" | "everything-and-back")));
        all
    }

    /// Create, update, delete.
    fn lifecycles() -> Vec<Self> {
        let lifecycle = |name, mut steps: Vec<WorkloadStep>| {
            steps.push(WorkloadStep::Delete);
            Self::new(name, steps)
        };
        let job = |image| shape("job", json!({ "image": image }));
        let cron = |image| shape("cron", json!({ "image": image, "schedule": "0 0 1 1 *" }));
        vec![
            lifecycle("web", vec![web("web:1", 2), web("web:2", 2)]),
            lifecycle("worker", vec![worker(1), worker(3), worker(1)]),
            lifecycle("game", vec![game("easy"), game("hard")]),
            lifecycle("job", vec![job("job:1"), job("job:2")]),
            lifecycle("cron", vec![cron("tick:1"), cron("tick:2")]),
            lifecycle(
                "pause-web",
                vec![web("web:1", 2), WorkloadStep::Pause, WorkloadStep::Resume],
            ),
            lifecycle("pause-game", vec![game("easy"), WorkloadStep::Pause, WorkloadStep::Resume]),
            // Another template under the same name: the old workload is replaced.
            lifecycle("becomes-stateful", vec![web("web:1", 1), game("easy")]),
            lifecycle("becomes-stateless", vec![game("easy"), web("web:1", 1)]),
            lifecycle(
                "hosts",
                vec![
                    web("web:1", 1),
                    WorkloadStep::Route(&["one.example.org"]),
                    WorkloadStep::Route(&["one.example.org", "two.example.org"]),
                    WorkloadStep::Route(&[]),
                ],
            ),
            Self::new(
                "project",
                vec![web("web:1", 1), WorkloadStep::Delete, WorkloadStep::DeleteProject],
            ),
            Self::new("project-and-all", vec![game("easy"), WorkloadStep::DeleteProject]),
        ]
    }

    /// Foreign deletes and edits.
    fn storms() -> Vec<Self> {
        let image = |image: &str| json!(image);
        let first = "/spec/template/spec/containers/0/image";
        vec![
            Self::new(
                "storm-web",
                vec![
                    web("web:1", 2),
                    WorkloadStep::ForeignDelete(&[Kind::Deployment]),
                    WorkloadStep::ForeignEdit(Kind::Deployment, first, image("evil:1")),
                    WorkloadStep::ForeignDelete(&[Kind::Service, Kind::Secret]),
                    WorkloadStep::ForeignEdit(Kind::Deployment, "/spec/replicas", json!(7)),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-game",
                vec![
                    game("easy"),
                    WorkloadStep::ForeignDelete(&[Kind::StatefulSet]),
                    WorkloadStep::ForeignEdit(
                        Kind::Service,
                        "/spec/selector",
                        json!({ "app": "other" }),
                    ),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-closed",
                vec![
                    web("web:1", 1),
                    WorkloadStep::ForeignAdd(
                        Kind::Deployment,
                        "/spec/template/spec/containers",
                        json!({ "name": "foreign", "image": "foreign:1" }),
                    ),
                    WorkloadStep::ForeignAdd(
                        Kind::Service,
                        "/spec/ports",
                        json!({ "name": "foreign", "port": 9 }),
                    ),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-anchor",
                vec![
                    web("web:1", 1),
                    WorkloadStep::ForeignDelete(&[Kind::ConfigMap]),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-namespace",
                vec![web("web:1", 1), WorkloadStep::ForeignDeleteNamespace, WorkloadStep::Delete],
            ),
        ]
    }

    /// A lifecycle under each verdict about drift that is not the default.
    fn verdicts() -> Vec<Self> {
        let lifecycle = |name, verdict, adopt| Self {
            drift: DriftPolicy { verdict: Some(verdict), adopt, rules: Vec::new() },
            ..Self::new(name, vec![web("web:1", 2), web("web:2", 2), WorkloadStep::Delete])
        };
        vec![
            lifecycle("drift-propose", Verdict::Adopt, Some(AdoptMode::Propose)),
            lifecycle("drift-keep", Verdict::Adopt, Some(AdoptMode::Keep)),
            lifecycle("drift-ignore", Verdict::Ignore, None),
        ]
    }

    /// Two services in one project, which must not affect each other.
    fn neighbours() -> Vec<Self> {
        vec![
            Self::new(
                "neighbours",
                vec![
                    web("web:1", 1),
                    neighbour(game("easy")),
                    neighbour(WorkloadStep::Delete),
                    web("web:2", 1),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "neighbours-lost",
                vec![
                    web("web:1", 1),
                    neighbour(worker(1)),
                    WorkloadStep::ForeignDeleteNamespace,
                    WorkloadStep::DeleteProject,
                ],
            ),
        ]
    }

    /// Slow controllers: faults and requests meet a rollout or a deletion in progress.
    fn rollouts() -> Vec<Self> {
        let job = |image| shape("job", json!({ "image": image }));
        vec![
            Self::slow("slow-web", vec![web("web:1", 2), web("web:2", 2), WorkloadStep::Delete]),
            Self::slow("slow-game", vec![game("easy"), game("hard"), WorkloadStep::Delete]),
            Self::slow("slow-job", vec![job("job:1"), hasty(job("job:2")), WorkloadStep::Delete]),
            Self::slow(
                "slow-lost",
                vec![
                    web("web:1", 1),
                    WorkloadStep::ForeignDeleteNamespace,
                    WorkloadStep::DeleteProject,
                ],
            ),
            Self::slow(
                "hasty-web",
                vec![
                    hasty(web("web:1", 2)),
                    hasty(web("web:2", 3)),
                    web("web:3", 1),
                    hasty(WorkloadStep::Pause),
                    WorkloadStep::Resume,
                    hasty(web("web:4", 2)),
                    WorkloadStep::Delete,
                ],
            ),
            Self::slow(
                "hasty-game",
                vec![
                    hasty(game("easy")),
                    game("hard"),
                    hasty(WorkloadStep::Pause),
                    WorkloadStep::DeleteProject,
                ],
            ),
        ]
    }

    /// Groups of workloads that must end in the same state; the first one is the direct route.
    #[must_use]
    pub fn routes() -> Vec<(&'static str, Vec<Self>)> {
        let route = Self::new;
        vec![
            (
                "there and back",
                vec![
                    route("direct", vec![web("web:1", 2)]),
                    route("detour", vec![web("web:1", 2), web("web:2", 3), web("web:1", 2)]),
                    route("rest", vec![web("web:1", 2), WorkloadStep::Pause, WorkloadStep::Resume]),
                ],
            ),
            (
                "everything set and taken back",
                vec![
                    route("plain", vec![web("web:1", 2)]),
                    route("everything-and-back", vec![everything(), web("web:1", 2)]),
                ],
            ),
            (
                "a game's settings",
                vec![
                    route("hard-game", vec![game("hard")]),
                    route("easy-then-hard-game", vec![game("easy"), game("hard")]),
                ],
            ),
        ]
    }
}
