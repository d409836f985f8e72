//! A valid call of each operation. Add new operations to this list.
//!
//! The tests of `coverage` and `hostile` read the OpenAPI document and call every operation. They
//! need the permissions and a valid body of each operation ([`RECIPES`]), and an existing object for
//! each `{placeholder}` in a path (`things`).

use axum::http::Method;
use serde_json::{Value, json};
use trueup_http::document;
use trueup_model::Clock;
use trueup_model::finding::{OrphanCandidate, SweepResult};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::principal::Permission::{
    self, ManageBilling, ManageMembers, ManagePlatform, ManageProjects, ManageSecrets,
    ManageServices, ManageTokens, Read, ReadBilling, ReadContent, ReadPlatform,
};
use trueup_model::principal::Role;
use trueup_rules::access::permissions;

use crate::drift::{diverged, fought_over};
use crate::front::{AUDITOR, Front, OPERATOR, OWNER, TestRequest, WEB, web};
use crate::invoice::{invoiced, used};
use crate::receipt::deleted_project;

/// What an operation needs from its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A token, or a session in its place.
    Token,
    /// Something else: it signs somebody in or out. See `session` and `sign_in`.
    Other,
}

/// A valid call of one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    /// Its operationId.
    pub(crate) operation: &'static str,
    /// The permissions that it needs.
    pub(crate) needs: &'static [Permission],
    /// A body that is accepted.
    pub(crate) body: Option<fn() -> Value>,
    /// Whether its path names an object that need not exist: another org creates its own.
    pub(crate) declares: bool,
    /// Whether an operator may omit the org.
    pub(crate) orgless: bool,
    /// What it takes.
    pub(crate) takes: Takes,
}

const fn reads(operation: &'static str) -> Recipe {
    needs(operation, &[Read])
}

const fn needs(operation: &'static str, needs: &'static [Permission]) -> Recipe {
    Recipe { operation, needs, body: None, declares: false, orgless: false, takes: Takes::Token }
}

const fn signs(operation: &'static str) -> Recipe {
    Recipe { takes: Takes::Other, ..needs(operation, &[]) }
}

impl Recipe {
    /// Whether a role has every permission that it needs.
    pub(crate) fn allows(&self, role: Role) -> bool {
        self.needs.iter().all(|permission| permissions(role).contains(permission))
    }

    /// Whether a role in a project has every permission that it needs there.
    pub(crate) fn allows_in_project(&self, role: Role) -> bool {
        self.allows(role) && !OF_THE_ORG.contains(&self.operation)
    }

    /// A token that may call it: of an owner, or else of an operator.
    pub(crate) fn caller(&self) -> &'static str {
        if self.allows(Role::Owner) { OWNER } else { OPERATOR }
    }

    const fn with(self, body: fn() -> Value) -> Self {
        Self { body: Some(body), ..self }
    }

    const fn declares(self) -> Self {
        Self { declares: true, ..self }
    }

    const fn orgless(self) -> Self {
        Self { orgless: true, ..self }
    }
}

/// Every operation. A stage has the project `shop` with the service `web` in generation 2, the token
/// `spare`, the receipt of a deleted project, a proposal to adopt a value, and a conflict.
pub(crate) const RECIPES: &[Recipe] = &[
    reads("project_list"),
    reads("project_get"),
    needs("project_delete", &[ManageProjects]),
    needs("project_put", &[ManageProjects]).with(|| json!({})).declares(),
    reads("overview_get"),
    reads("service_list"),
    reads("service_get"),
    reads("service_watch"),
    needs("service_put", &[ManageServices]).with(|| web("nginx:3")),
    needs("preview_request_create", &[ManageServices, ReadContent]).with(|| web("nginx:3")),
    needs("preview_request_get", &[ManageServices, ReadContent]),
    needs("service_delete", &[ManageServices]),
    needs("service_pause", &[ManageServices]).with(|| json!({})),
    needs("service_resume", &[ManageServices]).with(|| json!({})),
    needs("service_restart", &[ManageServices]).with(|| json!({})),
    needs("service_scale", &[ManageServices]).with(|| json!({"replicas": 2})),
    needs("service_autoscale", &[ManageServices]).with(|| json!({"min": 1, "max": 3})),
    needs("service_resize", &[ManageServices]).with(|| json!({"plan": "medium"})),
    needs("service_hours", &[ManageServices]).with(|| {
        json!({"active": {"zone": "Europe/Berlin", "windows": [{"from": "08:00", "to": "20:00"}]}})
    }),
    needs("service_rollback", &[ManageServices]).with(|| json!({"to": 1})),
    needs("service_force_delete", &[ManageProjects, ManageServices])
        .with(|| json!({"reason": "the node burnt", "generation": 2})),
    needs("project_force_delete", &[ManageProjects, ManageServices])
        .with(|| json!({"reason": "nobody runs it", "generation": 2})),
    reads("receipt_list"),
    reads("receipt_get"),
    needs("service_logs", &[ReadContent]),
    reads("release_list"),
    reads("transition_list"),
    reads("service_why"),
    reads("service_compare"),
    reads("projection_check"),
    reads("audit_checkpoint"),
    reads("audit_key"),
    reads("plan_list"),
    reads("plan_prices"),
    needs("plan_put", &[ManagePlatform]).with(plan).orgless(),
    reads("quota_get"),
    needs("quota_put", &[ManagePlatform]).with(quota),
    needs("cost_get", &[ReadBilling]),
    needs("billing_export", &[ReadBilling]),
    needs("billing_account_get", &[ReadBilling]),
    needs("billing_account_put", &[ManagePlatform]).with(billing_account),
    reads("offer_list"),
    needs("offer_put", &[ManagePlatform]).with(offer).orgless(),
    needs("subscription_get", &[ReadBilling]),
    needs("subscription_put", &[ManageBilling]).with(|| json!({"offer": "team", "at": "now"})),
    needs("project_budget_get", &[ReadBilling]),
    needs("project_budget_put", &[ManageBilling]).with(budget),
    needs("project_budget_delete", &[ManageBilling]),
    reads("project_quota_get"),
    needs("project_quota_put", &[ManageProjects]).with(project_quota),
    needs("project_quota_delete", &[ManageProjects]),
    needs("budget_get", &[ReadBilling]),
    needs("budget_put", &[ManageBilling]).with(budget),
    needs("budget_delete", &[ManageBilling]),
    needs("credit_list", &[ReadBilling]),
    needs("credit_grant", &[ManagePlatform]).with(credit),
    needs("invoice_list", &[ReadBilling]),
    needs("invoice_get", &[ReadBilling]),
    needs("invoice_document", &[ReadBilling]),
    needs("invoice_explain", &[ReadBilling]),
    needs("invoice_issue", &[ManagePlatform]).with(|| json!({"early": true})),
    needs("invoice_pay", &[ManagePlatform]).with(|| json!({"method": "bank transfer"})),
    needs("invoice_void", &[ManagePlatform]).with(|| json!({"reason": "wrong address"})),
    needs("ledger_list", &[ReadBilling]),
    needs("ledger_accounts", &[ReadBilling]),
    needs("ledger_verify", &[ReadBilling]),
    reads("event_list"),
    reads("event_get"),
    reads("lookup_get"),
    reads("event_watch"),
    reads("template_list").orgless(),
    reads("template_versions").orgless(),
    reads("template_get").orgless(),
    needs("template_publish", &[ManagePlatform]).with(template).orgless(),
    needs("template_deprecate", &[ManagePlatform])
        .with(|| json!({"instead": "use web@2"}))
        .orgless(),
    needs("service_freeze", &[ManageServices]).with(|| json!({"reason": "investigating"})),
    needs("service_unfreeze", &[ManageServices]).with(|| json!({})),
    needs("service_reconcile", &[ManageServices]).with(|| json!({})),
    needs("cluster_freeze", &[ManagePlatform]).with(|| json!({"reason": "an outage"})).orgless(),
    needs("cluster_unfreeze", &[ManagePlatform]).with(|| json!({})).orgless(),
    needs("platform_get", &[ReadPlatform]).orgless(),
    needs("platform_freeze", &[ManagePlatform]).with(|| json!({"reason": "an outage"})).orgless(),
    needs("platform_unfreeze", &[ManagePlatform]).with(|| json!({})).orgless(),
    needs("finding_list", &[ReadPlatform]).orgless(),
    needs("finding_remove", &[ManagePlatform]).with(|| json!({})).orgless(),
    needs("wake_list", &[ReadPlatform]).orgless(),
    needs("wake_requeue", &[ManagePlatform]).with(|| json!({})).orgless(),
    reads("divergence_list"),
    reads("divergence_get"),
    reads("drift_report"),
    needs("divergence_adopt", &[ManageProjects, ManageServices]).with(|| json!({})),
    needs("divergence_reject", &[ManageProjects, ManageServices]).with(|| json!({})),
    reads("conflict_list"),
    needs("conflict_settle", &[ManageProjects, ManageServices])
        .with(|| json!({"decision": "ours", "for_hours": 8})),
    reads("cluster_list"),
    reads("cluster_get"),
    needs("cluster_routing_get", &[ReadPlatform]).orgless(),
    needs("cluster_capacity", &[ReadPlatform]).orgless(),
    needs("cluster_routing_put", &[ManagePlatform]).with(|| json!({"issuer": "test"})).orgless(),
    needs("variable_list", &[ReadContent]),
    needs("variable_put", &[ManageSecrets]).with(value),
    needs("variable_delete", &[ManageSecrets]),
    needs("variable_patch", &[ManageSecrets]).with(patch),
    needs("service_variable_list", &[ReadContent]),
    needs("service_variable_put", &[ManageSecrets]).with(value),
    needs("service_variable_delete", &[ManageSecrets]),
    needs("service_variable_patch", &[ManageSecrets]).with(patch),
    needs("secret_list", &[ReadContent]),
    needs("secret_put", &[ManageSecrets]).with(value),
    needs("secret_delete", &[ManageSecrets]),
    needs("service_secret_list", &[ReadContent]),
    needs("service_secret_put", &[ManageSecrets]).with(value),
    needs("service_secret_delete", &[ManageSecrets]),
    reads("volume_list"),
    reads("endpoint_list"),
    needs("endpoint_put", &[ManageServices]).with(|| json!({"port": "http"})),
    needs("endpoint_delete", &[ManageServices]),
    reads("domain_list"),
    reads("domain_get"),
    needs("domain_put", &[ManageServices]).with(|| json!({"tls": "off"})),
    needs("domain_check", &[ManageServices]).with(|| json!({})),
    needs("domain_verify", &[ManagePlatform]).with(|| json!({"verified": true})),
    needs("domain_delete", &[ManageServices]),
    signs("session_create")
        .with(|| json!({"email": "nobody@example.com", "password": "nobody's password"})),
    signs("session_create_by_token").with(|| json!({"token": "nobody's token"})),
    signs("session_get"),
    signs("session_delete"),
    signs("setup_create").with(|| {
        json!({"code": "nobody's code", "email": "nobody@example.com", "name": "Nobody",
               "password": "a long and unusual sentence"})
    }),
    signs("session_start_with_provider").with(|| json!({"email": "nobody@example.com"})),
    signs("session_create_with_provider").with(|| json!({"state": "none", "code": "none"})),
    needs("provider_list", &[ManageMembers]),
    needs("provider_get", &[ManageMembers]),
    needs("provider_put", &[ManageMembers]).with(provider).declares(),
    needs("provider_check", &[ManageMembers]),
    needs("provider_delete", &[ManageMembers]),
    reads("member_list").orgless(),
    needs("member_put", &[ManageMembers]).with(|| json!({"role": "developer"})).orgless(),
    needs("member_delete", &[ManageMembers]).orgless(),
    needs("project_role_put", &[ManageMembers]).with(|| json!({"role": "admin"})),
    needs("project_role_delete", &[ManageMembers]),
    needs("invitation_list", &[ManageMembers]).orgless(),
    needs("invitation_create", &[ManageMembers])
        .with(|| json!({"email": "grace@example.com", "role": "viewer"}))
        .orgless(),
    needs("invitation_revoke", &[ManageMembers]).orgless(),
    signs("invitation_accept").with(|| {
        json!({"code": "nobody's code", "name": "Nobody", "password": "a long and unusual sentence"})
    }),
    needs("access_check", &[]).orgless(),
    needs("whoami", &[]).orgless(),
    needs("token_list", &[ManageTokens]).orgless(),
    needs("token_create", &[ManageTokens])
        .with(|| json!({"name": "new", "role": "viewer", "permissions": ["read"]}))
        .orgless(),
    needs("token_revoke", &[ManageTokens]).orgless(),
    needs("org_list", &[ReadPlatform]).orgless(),
    needs("org_create", &[ManagePlatform]).with(|| json!({"name": "fresh"})).orgless(),
    reads("org_get").orgless(),
    needs("org_delete", &[ManagePlatform]).orgless(),
    reads("org_receipts").orgless(),
];

/// Operations on public objects, which are the same for every org.
pub(crate) const PUBLIC: [&str; 5] =
    ["template_versions", "template_get", "cluster_list", "cluster_get", "plan_prices"];

/// Operations that show something of the org that a role in a single project does not reach.
pub(crate) const OF_THE_ORG: &[&str] = &[
    "audit_checkpoint",
    "audit_key",
    "member_list",
    "offer_list",
    "org_get",
    "org_receipts",
    "project_quota_delete",
    "project_quota_put",
    "quota_get",
    "subscription_get",
];

/// Operations whose recipes change nothing on a stage.
pub(crate) const UNCHANGED: [&str; 7] = [
    "project_put",
    "service_resume",
    "endpoint_put",
    "service_unfreeze",
    "cluster_unfreeze",
    "platform_unfreeze",
    "wake_requeue",
];

fn template() -> Value {
    json!({"name": "bot", "version": 1, "summary": "A chat bot.", "spec": {
        "workload": "deployment", "image": "bot:1", "replicas": 1,
        "resources": {"cpu_millis": 100, "memory_mib": 64}}})
}

fn provider() -> Value {
    json!({"issuer": "https://id.example.com", "client_id": "trueup", "client_secret": "old",
           "domains": ["example.com"], "groups": [{"group": "platform", "role": "developer"}]})
}

fn value() -> Value {
    json!({"value": "new"})
}

fn patch() -> Value {
    json!({"set": {"MORE": "new"}, "delete": ["PLAIN"]})
}

fn plan() -> Value {
    json!({"summary": "Half a core.", "cpu_millis": 500, "memory_mib": 512, "hourly_micros": 9000,
           "currency": "EUR"})
}

fn project_quota() -> Value {
    json!({"services": 9, "cpu_millis": 9000, "memory_mib": 9000, "storage_gib": 9, "gpus": 1})
}

fn offer() -> Value {
    json!({"summary": "For a team.", "currency": "EUR", "fee_micros": 1_000_000, "limits": quota(),
           "included": [{"item": "pod:small", "units": 3600}],
           "prices": [{"item": "pod:medium", "micros": 20_000, "per": 3600}],
           "discounts": [{"off_ppm": 50_000}], "at_zero": "warn"})
}

fn billing_account() -> Value {
    json!({"currency": "EUR", "time_zone": "UTC", "tax_percent": "19"})
}

fn budget() -> Value {
    json!({"micros": 500_000_000, "currency": "EUR", "at_limit": "refuse"})
}

fn credit() -> Value {
    json!({"micros": 25_000_000, "currency": "EUR", "reason": "welcome"})
}

fn quota() -> Value {
    json!({"services": 9, "cpu_millis": 9000, "memory_mib": 9000, "storage_gib": 9, "gpus": 0})
}

/// An existing object for a placeholder, and an id that no object has.
#[derive(Debug, Clone)]
pub(crate) struct Thing {
    pub(crate) placeholder: &'static str,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) no_id: String,
}

/// A name that no object has.
pub(crate) const NO_NAME: &str = "none";
/// The tail of an id that no object has.
const NO_ID: &str = "01h455vb4pex5vsknk084sn02q";

/// A fixture in which every recipe works, and the objects that paths can name in it.
pub(crate) async fn stage() -> (Front, Vec<Thing>) {
    let front = Front::with_web().await;
    front.declare("nginx:2").await;
    for path in ["/v1/projects/shop", WEB] {
        for (kind, name) in [("variables", "PLAIN"), ("secrets", "HIDDEN")] {
            let path = format!("{path}/{kind}/{name}");
            let set = front.put(&path).json(&json!({"value": "old"})).send().await;
            assert_eq!(set.status, 202, "{}", set.text());
        }
    }
    let path = format!("{WEB}/endpoints/public");
    let open = front.put(&path).json(&json!({"port": "http"})).send().await;
    assert_eq!(open.status, 202, "{}", open.text());
    let add = front.put(&format!("{WEB}/domains/www.example.org")).json(&json!({})).send().await;
    assert_eq!(add.status, 202, "{}", add.text());
    let lease =
        front.db.worker.acquire_lease(front.db.cluster, "one", None, front.clock.now()).await;
    let candidate = OrphanCandidate {
        key: ResourceKey::new(Kind::ConfigMap, "shop", "left"),
        uid: "uid".to_owned(),
        resource_version: "7".to_owned(),
        unit: None,
        proved: true,
    };
    let swept = SweepResult { kind: Kind::ConfigMap, candidates: vec![candidate] };
    let lease = lease.unwrap().ours().unwrap();
    front.db.worker.note_findings(lease, &swept, front.clock.now()).await.unwrap();
    let things = things(&front).await;
    (front, things)
}

/// Prepares a stage for an operation; returns a matching body.
pub(crate) async fn prepare(front: &Front, operation: &Operation) -> Option<Value> {
    let path = match operation.recipe.operation {
        "service_force_delete" => WEB,
        "project_force_delete" => "/v1/projects/shop",
        _ => return None,
    };
    let deleting = front.delete(path).send().await;
    assert_eq!(deleting.status, 202, "{}", deleting.text());
    if path != WEB {
        front.end_services().await;
    }
    let generation = deleting.json()["generation"].clone();
    Some(json!({"reason": "the node burnt", "generation": generation}))
}

async fn things(front: &Front) -> Vec<Thing> {
    let id = |reply: Value| reply["id"].as_str().unwrap().to_owned();
    let spare = json!({"name": "spare", "role": "viewer"});
    let project = front.get("/v1/projects/shop").send().await.json();
    let wake = id(front.get(WEB).send().await.json());
    let token = front.post("/v1/tokens").json(&spare).send().await.json();
    let org = front.get("/v1/orgs/acme").send().await.json();
    let member = front.db.user("spare@example.com", Role::Viewer, front.db.org).await.to_string();
    let bound = front.put("/v1/members/spare@example.com/projects/shop");
    let bound = bound.json(&json!({"role": "viewer"})).send().await;
    assert_eq!(bound.status, 200, "{}", bound.text());
    let invited = json!({"email": "invited@example.com", "role": "viewer"});
    let invitation = id(front.post("/v1/invitations").json(&invited).send().await.json());
    let declared = front.put("/v1/providers/okta").json(&provider()).send().await;
    assert_eq!(declared.status, 200, "{}", declared.text());
    let provider = id(declared.json());
    let cluster = front.get("/v1/clusters/test").send().await.json();
    let preview = front.post(&format!("{WEB}/preview-requests")).json(&web("nginx:3")).send().await;
    let preview = id(preview.json());
    let findings = front.db.app.list_findings(false, None, 1).await.unwrap();
    let finding = findings[0].id.to_string();
    let former = id(deleted_project(front).await);
    let warn = json!({"micros": 900_000_000, "currency": "EUR", "at_limit": "warn"});
    for budget in ["/v1/budget", "/v1/projects/shop/budget"] {
        let set = front.put(budget).json(&warn).send().await;
        assert_eq!(set.status, 200, "{}", set.text());
    }
    let set = front.put("/v1/projects/shop/quota").json(&quota()).send().await;
    assert_eq!(set.status, 200, "{}", set.text());
    let divergence = diverged(front, "spec.replicas", "proposed").await;
    let conflict = fought_over(front, "spec.paused").await;
    used(front, "pod-a", 300).await;
    let (invoice, line) = invoiced(front).await;
    used(front, "pod-b", 300).await;
    front.seal().await;
    let events = front.get("/v1/events?limit=1").send().await.json();
    let event = id(events["items"][0].clone());
    [
        ("project", "shop", id(project)),
        // A wake has the id of its unit, and no name.
        ("wake", &wake, wake.clone()),
        ("finding", &finding, finding.clone()),
        ("divergence", &divergence, divergence.clone()),
        ("conflict", &conflict, conflict.clone()),
        ("invoice", "ACME-0001", invoice),
        // A line has no name.
        ("line", &line, line.clone()),
        ("event", &event, event.clone()),
        // What a lookup finds: any object.
        ("id", &divergence, divergence.clone()),
        ("preview_request", &preview, preview.clone()),
        ("service", "web", wake.clone()),
        // The subject of a receipt has no name.
        ("subject", &former, former.clone()),
        ("token", "spare", id(token)),
        ("member", "spare@example.com", member),
        ("invitation", &invitation, invitation.clone()),
        ("provider", "okta", provider),
        ("org", "acme", id(org)),
        ("cluster", "test", id(cluster)),
        ("variable", "PLAIN", "PLAIN".to_owned()),
        ("secret", "HIDDEN", "HIDDEN".to_owned()),
        ("endpoint", "public", "public".to_owned()),
        ("domain", "www.example.org", "www.example.org".to_owned()),
        // Plans have no ids, and are public.
        ("plan", "small", "small".to_owned()),
        ("offer", "team", "team".to_owned()),
        // Templates and their versions have no ids.
        ("template", "web", "web".to_owned()),
        ("version", "1", "1".to_owned()),
    ]
    .into_iter()
    .map(|(placeholder, name, id)| {
        // For objects without ids, a valid name that no object has.
        let no_id = match id.split_once('_') {
            Some((prefix, _)) => format!("{prefix}_{NO_ID}"),
            None if id == id.to_uppercase() => NO_NAME.to_uppercase(),
            None => NO_NAME.to_owned(),
        };
        Thing { placeholder, name: name.to_owned(), id, no_id }
    })
    .collect()
}

/// One operation of the document.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) recipe: Recipe,
    /// The names of its query parameters.
    pub(crate) queries: Vec<String>,
    /// The fields that its body may have, if it takes one.
    pub(crate) fields: Option<Vec<String>>,
    /// The example of its body in the document, if it takes one.
    pub(crate) example: Option<Value>,
}

impl Operation {
    /// The path with each placeholder replaced.
    pub(crate) fn at(&self, things: &[Thing], text: impl Fn(&Thing) -> String) -> String {
        things.iter().fold(self.path.clone(), |path, thing| {
            path.replace(&format!("{{{}}}", thing.placeholder), &text(thing))
        })
    }

    /// The path of the existing objects.
    pub(crate) fn address(&self, things: &[Thing]) -> String {
        self.at(things, |thing| thing.name.clone())
    }

    pub(crate) fn names_something(&self) -> bool {
        self.path.contains('{')
    }

    /// A valid call of this path, with this token.
    pub(crate) fn request(&self, front: &Front, token: &str, address: &str) -> TestRequest {
        let request = front.request(self.method.clone(), address).token(token);
        let of_platform = [OPERATOR, AUDITOR].contains(&token);
        let request = if of_platform { request.header("trueup-org", "acme") } else { request };
        match self.recipe.body {
            Some(body) => request.json(&body()),
            None => request,
        }
    }
}

/// Every operation that takes a token, with its recipe.
pub(crate) fn operations() -> Vec<Operation> {
    let all = all_operations();
    all.into_iter().filter(|operation| operation.recipe.takes == Takes::Token).collect()
}

/// Every operation of the document with its recipe.
pub(crate) fn all_operations() -> Vec<Operation> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let recipe = RECIPES.iter().find(|recipe| recipe.operation == id);
            let recipe = *recipe.unwrap_or_else(|| {
                panic!(
                    "the operation `{id}` ({method} {path}) has no recipe: add a line for it to RECIPES in \
                     {} with its permissions and a valid body",
                    file!()
                )
            });
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let queries = parameters
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                .collect();
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let schema = schema.as_str().map(|schema| {
                let name = schema.rsplit('/').next().unwrap();
                &document["components"]["schemas"][name]
            });
            let fields = schema.map(|schema| {
                let properties = schema["properties"].as_object().into_iter().flatten();
                properties.map(|(name, _)| name.clone()).collect()
            });
            all.push(Operation {
                method: Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(),
                path: path.clone(),
                recipe,
                queries,
                fields,
                example: schema.map(|schema| schema["example"].clone()),
            });
        }
    }
    all
}
