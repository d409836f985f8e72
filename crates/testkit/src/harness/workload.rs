//! Workloads: what people ask, and what others do to the cluster meanwhile.

use std::time::Duration;

use serde_json::{Map, Value, json};
use trueup_model::key::Kind;
use trueup_model::spec::Spec;
use trueup_model::template::Template;
use trueup_rules::admit::template::resolve;

/// Steps, each of which begins when the one before is done and everything rests.
#[derive(Debug, Clone)]
pub struct Workload {
    /// What plans call it.
    pub name: &'static str,
    /// What happens.
    pub steps: Vec<WorkloadStep>,
    /// How often the cluster's controllers run; at once where nothing is said.
    pub controllers: Option<Duration>,
}

/// The pace of controllers that are slow: much is asked while a rollout is under way.
const SLOW: Duration = Duration::from_secs(7);

/// One thing that is asked, or done from outside.
#[derive(Debug, Clone)]
pub enum WorkloadStep {
    /// A service shall be this.
    Declare(Shape),
    /// It shall rest.
    Pause,
    /// It shall run again.
    Resume,
    /// It shall be reached under these hosts, and no others.
    Lead(&'static [&'static str]),
    /// It shall be gone.
    Delete,
    /// The project shall be gone, with whatever is left in it.
    DeleteProject,
    /// Somebody else deletes the service's objects of these kinds, all at once.
    Lose(&'static [Kind]),
    /// Somebody else edits the service's objects of this kind: this field, as a JSON pointer.
    Edit(Kind, &'static str, Value),
    /// Somebody else adds an entry to a list in the service's objects of this kind, as a JSON pointer.
    Add(Kind, &'static str, Value),
    /// Somebody else deletes the project's namespace.
    LoseNamespace,
    /// Nothing is asked: the project comes to rest.
    Rest,
    /// The same of a second service in the same project.
    Beside(Box<Self>),
    /// The same, and the next step does not wait for it.
    Hasty(Box<Self>),
}

impl WorkloadStep {
    /// The step itself, without its haste.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::Hasty(step) => step.inner(),
            step => step,
        }
    }
}

/// A template as it is shipped, and its parameters.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The template.
    pub template: &'static str,
    /// What is set.
    pub parameters: Value,
    /// What is laid over the spec that comes out: fields that no shipped template sets.
    pub over: Value,
}

/// Every template that a workload names.
pub const TEMPLATES: [(&str, &str); 5] = [
    ("web", include_str!("../../../../templates/web.yaml")),
    ("worker", include_str!("../../../../templates/worker.yaml")),
    ("minecraft", include_str!("../../../../templates/minecraft.yaml")),
    ("job", include_str!("../../../../templates/job.yaml")),
    ("cron", include_str!("../../../../templates/cron.yaml")),
];

impl Shape {
    /// What is set, as the door wants it.
    #[must_use]
    pub fn given(&self) -> Map<String, Value> {
        self.parameters.as_object().cloned().unwrap_or_default()
    }

    /// The spec that comes of it.
    #[must_use]
    pub fn spec(&self) -> Spec {
        let (_, text) = TEMPLATES
            .into_iter()
            .find(|(name, _)| *name == self.template)
            .expect("a workload should name a template that is there");
        let template: Template = serde_saphyr::from_str(text).expect("a template should be read");
        let spec =
            resolve(&template, &self.given()).expect("a workload's parameters should be right");
        let mut spec = serde_json::to_value(spec).expect("a spec should become JSON");
        for (name, value) in self.over.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        serde_json::from_value(spec).expect("a workload's spec should be right")
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

/// A web service with every optional field of a spec set.
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

fn beside(step: WorkloadStep) -> WorkloadStep {
    WorkloadStep::Beside(Box::new(step))
}

fn hasty(step: WorkloadStep) -> WorkloadStep {
    WorkloadStep::Hasty(Box::new(step))
}

impl Workload {
    const fn new(name: &'static str, steps: Vec<WorkloadStep>) -> Self {
        Self { name, steps, controllers: None }
    }

    /// The same where controllers are slow.
    const fn slow(name: &'static str, steps: Vec<WorkloadStep>) -> Self {
        Self { name, steps, controllers: Some(SLOW) }
    }

    /// Whether a step does not wait for the one before.
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, WorkloadStep::Hasty(_)))
    }

    /// Whether there is more than one service: they are worked on side by side, in no fixed order.
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.inner(), WorkloadStep::Beside(_)))
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

    /// All that get plans.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Self::lives();
        all.extend(Self::storms());
        all.extend(Self::neighbours());
        all.extend(Self::rollouts());
        let ways = Self::routes().into_iter().flat_map(|(_, ways)| ways);
        all.extend(ways.filter(|way| matches!(way.name, "detour" | "everything-and-back")));
        all
    }

    /// Create, update, delete.
    fn lives() -> Vec<Self> {
        let life = |name, mut steps: Vec<WorkloadStep>| {
            steps.push(WorkloadStep::Delete);
            Self::new(name, steps)
        };
        let job = |image| shape("job", json!({ "image": image }));
        let cron = |image| shape("cron", json!({ "image": image, "schedule": "0 0 1 1 *" }));
        vec![
            life("web", vec![web("web:1", 2), web("web:2", 2)]),
            life("worker", vec![worker(1), worker(3), worker(1)]),
            life("game", vec![game("easy"), game("hard")]),
            life("job", vec![job("job:1"), job("job:2")]),
            life("cron", vec![cron("tick:1"), cron("tick:2")]),
            life("pause-web", vec![web("web:1", 2), WorkloadStep::Pause, WorkloadStep::Resume]),
            life("pause-game", vec![game("easy"), WorkloadStep::Pause, WorkloadStep::Resume]),
            // Another template under the same name: the old workload goes, another comes.
            life("becomes-stateful", vec![web("web:1", 1), game("easy")]),
            life("becomes-stateless", vec![game("easy"), web("web:1", 1)]),
            life(
                "hosts",
                vec![
                    web("web:1", 1),
                    WorkloadStep::Lead(&["one.example.org"]),
                    WorkloadStep::Lead(&["one.example.org", "two.example.org"]),
                    WorkloadStep::Lead(&[]),
                ],
            ),
            Self::new(
                "project",
                vec![web("web:1", 1), WorkloadStep::Delete, WorkloadStep::DeleteProject],
            ),
            Self::new("project-and-all", vec![game("easy"), WorkloadStep::DeleteProject]),
        ]
    }

    /// Others delete and edit.
    fn storms() -> Vec<Self> {
        let image = |image: &str| json!(image);
        let first = "/spec/template/spec/containers/0/image";
        vec![
            Self::new(
                "storm-web",
                vec![
                    web("web:1", 2),
                    WorkloadStep::Lose(&[Kind::Deployment]),
                    WorkloadStep::Edit(Kind::Deployment, first, image("evil:1")),
                    WorkloadStep::Lose(&[Kind::Service, Kind::Secret]),
                    WorkloadStep::Edit(Kind::Deployment, "/spec/replicas", json!(7)),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-game",
                vec![
                    game("easy"),
                    WorkloadStep::Lose(&[Kind::StatefulSet]),
                    WorkloadStep::Edit(Kind::Service, "/spec/selector", json!({ "app": "other" })),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-closed",
                vec![
                    web("web:1", 1),
                    WorkloadStep::Add(
                        Kind::Deployment,
                        "/spec/template/spec/containers",
                        json!({ "name": "foreign", "image": "foreign:1" }),
                    ),
                    WorkloadStep::Add(
                        Kind::Service,
                        "/spec/ports",
                        json!({ "name": "foreign", "port": 9 }),
                    ),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "storm-anchor",
                vec![web("web:1", 1), WorkloadStep::Lose(&[Kind::ConfigMap]), WorkloadStep::Delete],
            ),
            Self::new(
                "storm-namespace",
                vec![web("web:1", 1), WorkloadStep::LoseNamespace, WorkloadStep::Delete],
            ),
        ]
    }

    /// Two services in one project: what happens to one is nothing to the other.
    fn neighbours() -> Vec<Self> {
        vec![
            Self::new(
                "neighbours",
                vec![
                    web("web:1", 1),
                    beside(game("easy")),
                    beside(WorkloadStep::Delete),
                    web("web:2", 1),
                    WorkloadStep::Delete,
                ],
            ),
            Self::new(
                "neighbours-lost",
                vec![
                    web("web:1", 1),
                    beside(worker(1)),
                    WorkloadStep::LoseNamespace,
                    WorkloadStep::DeleteProject,
                ],
            ),
        ]
    }

    /// Controllers take their time: faults and new wishes meet a rollout or a deletion that is under way.
    fn rollouts() -> Vec<Self> {
        let job = |image| shape("job", json!({ "image": image }));
        vec![
            Self::slow("slow-web", vec![web("web:1", 2), web("web:2", 2), WorkloadStep::Delete]),
            Self::slow("slow-game", vec![game("easy"), game("hard"), WorkloadStep::Delete]),
            Self::slow("slow-job", vec![job("job:1"), hasty(job("job:2")), WorkloadStep::Delete]),
            Self::slow(
                "slow-lost",
                vec![web("web:1", 1), WorkloadStep::LoseNamespace, WorkloadStep::DeleteProject],
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

    /// Ways that must lead to the same place: the first of each is the direct one.
    #[must_use]
    pub fn routes() -> Vec<(&'static str, Vec<Self>)> {
        let way = Self::new;
        vec![
            (
                "there and back",
                vec![
                    way("direct", vec![web("web:1", 2)]),
                    way("detour", vec![web("web:1", 2), web("web:2", 3), web("web:1", 2)]),
                    way("rest", vec![web("web:1", 2), WorkloadStep::Pause, WorkloadStep::Resume]),
                ],
            ),
            (
                "everything set and taken back",
                vec![
                    way("plain", vec![web("web:1", 2)]),
                    way("everything-and-back", vec![everything(), web("web:1", 2)]),
                ],
            ),
            (
                "a game's settings",
                vec![
                    way("hard-game", vec![game("hard")]),
                    way("easy-then-hard-game", vec![game("easy"), game("hard")]),
                ],
            ),
        ]
    }
}
