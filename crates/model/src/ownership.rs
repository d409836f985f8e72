//! The registry of mechanisms and reconciliation owners: which loop carries out each operation.
//!
//! Every mutating operation has one mechanism, and every loop writes one kind of state. A test
//! generates `docs/ownership.md` from this and from the OpenAPI description.

/// How an operation is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// Nothing is changed.
    Read,
    /// Local and bounded: complete when the request returns.
    Direct,
    /// Intent is recorded, and a loop keeps the cluster converged to it.
    Reconciler,
    /// Staged work with an end.
    Workflow,
    /// Finds, repairs or purges leftovers.
    Janitor,
}

impl Mechanism {
    /// The name in `docs/ownership.md`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Direct => "direct mutation",
            Self::Reconciler => "reconciler-owned convergence",
            Self::Workflow => "workflow-owned execution",
            Self::Janitor => "janitor, discovery or backfill",
        }
    }
}

/// The owner of the operations whose name has this prefix. The first matching entry counts.
#[derive(Debug, Clone, Copy)]
pub struct Owned {
    /// A prefix of an `operationId`.
    pub prefix: &'static str,
    /// How it is carried out.
    pub mechanism: Mechanism,
    /// The loop that acts when the observed state differs from the accepted one.
    pub owner: &'static str,
}

const fn owned(prefix: &'static str, mechanism: Mechanism, owner: &'static str) -> Owned {
    Owned { prefix, mechanism, owner }
}

const BUDGET: &str = "none: changes are checked against it; the accruer pauses";
const FREEZE: &str = "none: executors obey a freeze while it is set";

/// Mutating operations.
pub const OPERATIONS: &[Owned] = &[
    owned("service_freeze", Mechanism::Direct, FREEZE),
    owned("service_unfreeze", Mechanism::Direct, FREEZE),
    owned("service_", Mechanism::Reconciler, "the executor of its cluster"),
    owned("project_budget_", Mechanism::Direct, BUDGET),
    owned("project_quota_", Mechanism::Direct, "none: it applies to later requests"),
    owned("project_role_", Mechanism::Direct, "none: roles are read at every request"),
    owned("project_", Mechanism::Reconciler, "the executor of its cluster"),
    owned("variable_", Mechanism::Reconciler, "the executors of the services that read it"),
    owned("secret_", Mechanism::Reconciler, "the executors of the services that read it"),
    owned(
        "divergence_",
        Mechanism::Reconciler,
        "the executor of its cluster; the adopter ends proposals",
    ),
    owned("conflict_", Mechanism::Reconciler, "the executor of its cluster"),
    owned("domain_check", Mechanism::Janitor, "the domain verifier"),
    owned("domain_", Mechanism::Reconciler, "the executor of its cluster"),
    owned(
        "endpoint_",
        Mechanism::Reconciler,
        "the executor of its cluster; the report writer frees the port",
    ),
    owned("billing_account_", Mechanism::Direct, "none: the accruer reads it"),
    owned("offer_", Mechanism::Direct, "none: a version never changes"),
    owned(
        "subscription_",
        Mechanism::Direct,
        "none: it is read by its times; the accruer applies the limits of changes that begin later",
    ),
    owned("budget_", Mechanism::Direct, BUDGET),
    owned("credit_", Mechanism::Direct, "none: invoices use it"),
    owned("invoice_", Mechanism::Direct, "none: the closer issues what nobody requests"),
    owned("wake_", Mechanism::Janitor, "the driver"),
    owned("finding_", Mechanism::Janitor, "the finding recorder of its cluster"),
    owned("platform_", Mechanism::Direct, FREEZE),
    owned("cluster_freeze", Mechanism::Direct, FREEZE),
    owned("cluster_unfreeze", Mechanism::Direct, FREEZE),
    owned("cluster_", Mechanism::Direct, "none: it applies as written"),
    owned("invitation_", Mechanism::Direct, "none: invitations expire"),
    owned("member_", Mechanism::Direct, "none: roles are read at every request"),
    owned(
        "provider_",
        Mechanism::Reconciler,
        "the identity reconciler: it confirms everybody a provider vouches for",
    ),
    owned("setup_", Mechanism::Direct, "none: it creates the first account"),
    owned("session_", Mechanism::Direct, "none: sessions are checked at every request"),
    owned("token_", Mechanism::Direct, "none: tokens are checked at every request"),
    owned("org_delete", Mechanism::Reconciler, "the executors of its projects' clusters"),
    owned("org_", Mechanism::Direct, "none: it applies as written"),
    owned(
        "preview_request_",
        Mechanism::Workflow,
        "the preview filler of its cluster; requests expire",
    ),
    owned("plan_", Mechanism::Direct, "none: it applies to later requests"),
    owned("quota_", Mechanism::Direct, "none: it applies to later requests"),
    owned("template_", Mechanism::Direct, "none: a version never changes"),
];

/// The owner of a mutating operation; none if it is not registered.
#[must_use]
pub fn owner(operation: &str) -> Option<&'static Owned> {
    OPERATIONS.iter().find(|owned| operation.starts_with(owned.prefix))
}

/// A loop.
#[derive(Debug, Clone, Copy)]
pub struct Loop {
    /// Its name.
    pub name: &'static str,
    /// Its source file, relative to the root of the repository.
    pub file: &'static str,
    /// Its mechanism.
    pub mechanism: Mechanism,
    /// The only state it writes.
    pub writes: &'static str,
    /// What triggers it.
    pub wakes: &'static str,
    /// What recovers from its failure.
    pub net: &'static str,
}

/// Every loop.
pub const LOOPS: &[Loop] = &[
    Loop {
        name: "lease holder",
        file: "crates/control/src/lease_holder.rs",
        mechanism: Mechanism::Janitor,
        writes: "leases, heartbeats, the time of the last watch event by kind",
        wakes: "every 3 seconds",
        net: "another process takes the lease after 10 seconds",
    },
    Loop {
        name: "driver",
        file: "crates/control/src/driver.rs",
        mechanism: Mechanism::Reconciler,
        writes: "wakes, recorded keys",
        wakes: "a wake's signal; polls every second",
        net: "an unfinished wake is requeued with the next lease",
    },
    Loop {
        name: "executor",
        file: "crates/cluster/src/executor.rs",
        mechanism: Mechanism::Reconciler,
        writes: "objects in the cluster",
        wakes: "an order, a watch event, a retry that is due",
        net: "a new executor gets every order and plans from the live state",
    },
    Loop {
        name: "follower",
        file: "crates/cluster/src/observe/follow.rs",
        mechanism: Mechanism::Reconciler,
        writes: "the cache",
        wakes: "watch events",
        net: "relists the kind; an object missing from the list is gone",
    },
    Loop {
        name: "resync",
        file: "crates/cluster/src/observe/resync.rs",
        mechanism: Mechanism::Janitor,
        writes: "the cache",
        wakes: "every kind within two minutes",
        net: "the next round",
    },
    Loop {
        name: "report writer",
        file: "crates/control/src/report_writer.rs",
        mechanism: Mechanism::Reconciler,
        writes: "observed and projected rows, divergences and conflicts, and events about them",
        wakes: "a report",
        net: "reports wait while the database is unavailable; a new executor reports again",
    },
    Loop {
        name: "recorder",
        file: "crates/control/src/recorder.rs",
        mechanism: Mechanism::Reconciler,
        writes: "transitions of pods, disks and nodes",
        wakes: "an object update",
        net: "the next full list is compared with the known objects; a gap is recorded as a gap",
    },
    Loop {
        name: "usage meter",
        file: "crates/control/src/usage_meter.rs",
        mechanism: Mechanism::Reconciler,
        writes: "usage intervals and gaps",
        wakes: "recorded transitions; polls every 5 seconds",
        net: "what is not metered stays marked in the database",
    },
    Loop {
        name: "capacity check",
        file: "crates/control/src/capacity_check.rs",
        mechanism: Mechanism::Janitor,
        writes: "what became of the capacity of each cluster and day",
        wakes: "every five minutes",
        net: "the next round computes the same days",
    },
    Loop {
        name: "accruer",
        file: "crates/control/src/accruer.rs",
        mechanism: Mechanism::Reconciler,
        writes: "ledger entries of usage; the limits of a quota when a subscription begins",
        wakes: "every hour for each org, or as configured",
        net: "the next pass posts the whole difference",
    },
    Loop {
        name: "identity reconciler",
        file: "crates/control/src/identity_reconciler.rs",
        mechanism: Mechanism::Reconciler,
        writes: "identities, proofs of their providers' domains, and memberships that providers give",
        wakes: "every 5 minutes for each person; a requested check",
        net: "sessions that are not confirmed in time end by themselves",
    },
    Loop {
        name: "closer",
        file: "crates/control/src/closer.rs",
        mechanism: Mechanism::Reconciler,
        writes: "invoices of ended billing periods",
        wakes: "every minute",
        net: "a period without an invoice is found again",
    },
    Loop {
        name: "finding recorder",
        file: "crates/control/src/finding_recorder.rs",
        mechanism: Mechanism::Janitor,
        writes: "findings; removes objects whose removal was requested",
        wakes: "a sweep of a kind; polls every 2 seconds for removals",
        net: "the next sweep; an unacknowledged removal is retried",
    },
    Loop {
        name: "adopter",
        file: "crates/control/src/adopter.rs",
        mechanism: Mechanism::Janitor,
        writes: "proposals that are rejected or expire; through the door, adopted values",
        wakes: "polls every 2 seconds",
        net: "the next poll; a proposal without a decision expires after a day",
    },
    Loop {
        name: "hours follower",
        file: "crates/control/src/hours_follower.rs",
        mechanism: Mechanism::Reconciler,
        writes: "through the door, that a service is paused or resumed by its active hours",
        wakes: "the next edge of any service's hours; looks every 15 seconds",
        net: "an edge stays due until it is followed; the next lease holder",
    },
    Loop {
        name: "preview filler",
        file: "crates/control/src/preview_filler.rs",
        mechanism: Mechanism::Workflow,
        writes: "preview requests: the result, and whether it is still valid",
        wakes: "polls every second",
        net: "a request that is not filled within a minute fails; all of them expire",
    },
    Loop {
        name: "domain verifier",
        file: "crates/control/src/domain_verifier.rs",
        mechanism: Mechanism::Janitor,
        writes: "results of DNS checks; through the door, that a host is verified",
        wakes: "a requested check, and when the next check is due",
        net: "the next check, at most an hour later; checks end a week after the last request",
    },
    Loop {
        name: "reachability recorder",
        file: "crates/control/src/reachability_recorder.rs",
        mechanism: Mechanism::Janitor,
        writes: "events when a cluster becomes unreachable or reachable",
        wakes: "every second; it reads memory",
        net: "the next second; a new lease holder reads back what was recorded",
    },
    Loop {
        name: "order check",
        file: "crates/control/src/order_check.rs",
        mechanism: Mechanism::Janitor,
        writes: "wakes of units whose order is older than the database",
        wakes: "every 90 to 120 seconds",
        net: "the next round",
    },
    Loop {
        name: "reprojector",
        file: "crates/control/src/reprojector.rs",
        mechanism: Mechanism::Janitor,
        writes: "statuses that older rules computed",
        wakes: "once after the lease was acquired",
        net: "retries every 30 seconds; the next lease holder",
    },
    Loop {
        name: "report tap",
        file: "crates/control/src/report_tap.rs",
        mechanism: Mechanism::Janitor,
        writes: "nothing: it measures reports on their way, for metrics",
        wakes: "a report",
        net: "none: a lost measurement is not repeated",
    },
    Loop {
        name: "acceptance timer",
        file: "crates/control/src/acceptance_timer.rs",
        mechanism: Mechanism::Janitor,
        writes: "nothing: it measures the time to the first healthy status, for metrics",
        wakes: "a service that became healthy",
        net: "none: a lost measurement is not repeated",
    },
    Loop {
        name: "notifier",
        file: "crates/control/src/notifier.rs",
        mechanism: Mechanism::Janitor,
        writes: "nothing: it forwards notifications from other replicas",
        wakes: "a Postgres NOTIFY",
        net: "every replica polls",
    },
    Loop {
        name: "backlog",
        file: "crates/control/src/backlog.rs",
        mechanism: Mechanism::Janitor,
        writes: "nothing: it counts waiting wakes, for metrics",
        wakes: "every 5 seconds",
        net: "the next count",
    },
    Loop {
        name: "overdue",
        file: "crates/control/src/overdue.rs",
        mechanism: Mechanism::Janitor,
        writes: "nothing: it logs deletions that take too long",
        wakes: "its own clock",
        net: "the next check",
    },
    Loop {
        name: "sealer",
        file: "crates/control/src/sealer.rs",
        mechanism: Mechanism::Janitor,
        writes: "the order of events and their hashes",
        wakes: "an event's signal; polls",
        net: "events wait unsealed; the lag is a metric",
    },
    Loop {
        name: "purge",
        file: "crates/control/src/purge.rs",
        mechanism: Mechanism::Janitor,
        writes: "deletes expired idempotency keys",
        wakes: "every hour",
        net: "the next hour",
    },
];
