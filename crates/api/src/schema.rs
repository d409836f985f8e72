//! Schemas of constrained values: the rules that requests are checked by, as the OpenAPI document states them.
//!
//! A field keeps its plain type, so that a violation is answered as a problem that names the field; the
//! schema in `value_type` tells clients the rule beforehand. Handlers use the same constants.

use strum::VariantNames;
use trueup_model::event::{EVENT_VERSION, EventType, FORMER_TYPES, Source, wire_source, wire_type};
use trueup_model::id::{Id, Noun, noun};
use trueup_model::name::Name;
use trueup_model::schema::text;
use trueup_model::spec::MAX_PODS;
use trueup_model::token;
use trueup_model::variable::{MAX_NAME, MAX_VALUE};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// The largest page of a list.
pub const MAX_PAGE: i64 = 1000;
/// The most log lines of a pod.
pub const MAX_LINES: u32 = 10_000;
/// The longest sentence: reasons, summaries, descriptions.
pub const MAX_SENTENCE: usize = 300;
/// The longest lifetime of a token, in days.
pub const MAX_DAYS: u32 = 3650;
/// The longest time that the decision about a conflict may hold, in hours: a year.
pub const MAX_HOURS: u32 = 366 * 24;
/// The most CPU of a plan; more is a mistake in the manifest.
pub const MAX_CPU_MILLIS: u32 = 1_000_000;
/// The most memory of a plan.
pub const MAX_MEMORY_MIB: u32 = 16 << 20;
/// The most GPUs of a plan: as many as the number holds.
pub const MAX_GPUS: u32 = u32::MAX;

/// The most units that an offer includes of an item.
pub const MAX_INCLUDED: i64 = 1_000_000_000_000_000;

/// The most credit that is granted at once: a million of the currency's unit. More is a mistake.
pub const MAX_CREDIT: i64 = 1_000_000_000_000;

fn integer(min: i64, max: i64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(min))
        .maximum(Some(max))
}

/// Defines types that exist only for their schema.
macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident => $schema:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $schema.into()
                }
            }

            impl ToSchema for $name {}
        )*

        /// All of them by name: the schemas of parameters are not collected with those of bodies.
        #[must_use]
        pub fn all() -> Vec<(String, RefOr<Schema>)> {
            vec![$((stringify!($name).to_owned(), $name::schema())),*]
        }
    };
}

schemas! {
    /// The size of a page.
    PageLimit => integer(1, MAX_PAGE);
    /// How many lines of a log.
    LogTail => integer(0, i64::from(MAX_LINES));
    /// A generation: one or more.
    Generation => integer(1, i64::MAX);
    /// A position in the org's event log.
    Position => text("^(?:0|[1-9][0-9]{0,17})$", 1, 18);
    /// A sentence of printable characters.
    Sentence => text(r"^[^\x00-\x1f\x7f-\x9f\s](?:[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s])?$", 1, MAX_SENTENCE);
    /// The name of a token: printable characters.
    TokenName => text("^[A-Za-z0-9](?:[A-Za-z0-9._@ -]*[A-Za-z0-9])?$", 1, token::MAX_NAME);
    /// A number of days.
    Days => integer(1, i64::from(MAX_DAYS));
    /// A number of hours.
    Hours => integer(1, i64::from(MAX_HOURS));
    /// Thousandths of a core.
    PlanCpu => integer(1, i64::from(MAX_CPU_MILLIS));
    /// Mebibytes of memory.
    PlanMemory => integer(1, i64::from(MAX_MEMORY_MIB));
    /// Whole GPUs.
    PlanGpus => integer(0, i64::from(MAX_GPUS));
    /// Millionths of a currency's unit.
    Micros => integer(0, i64::MAX);
    /// An amount of a resource.
    ResourceAmount => integer(0, i64::MAX);
    /// A number of pods.
    Pods => integer(1, i64::from(MAX_PODS));
    /// The month of a billing period.
    BillingMonth => text("^[0-9]{4}-(?:0[1-9]|1[0-2])$", 7, 7);
    /// The IANA name of a time zone.
    TimeZoneName => text("^[A-Za-z0-9_+/-]+$", 1, 64);
    /// A percentage with up to four decimal places.
    TaxPercent => text(r"^(?:100|[0-9]{1,2}(?:\.[0-9]{1,4})?)$", 1, 7);
    /// Millionths of a currency's unit: more than nothing.
    CreditAmount => integer(1, MAX_CREDIT);
    /// The number of a ledger entry; 0 for the beginning.
    LedgerPosition => integer(0, i64::MAX);
    /// For how many minutes sessions outlive the last confirmation by their identity provider.
    OutageMinutes => integer(5, 1440);
    /// What has a price: `pod:PLAN`, `disk_gib:PLAN` or a meter.
    ItemName => text("^(?:(?:pod|disk_gib):(?!(?:default|trueup)$)(?!kube-)[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?|pod_seconds|cpu_milli_seconds|memory_mib_seconds|gpu_seconds|disk_gib_seconds|egress_bytes)$", 3, 60);
    /// Units that an offer includes.
    IncludedAmount => integer(0, MAX_INCLUDED);
    /// The number of units that a price is for.
    UnitCount => integer(1, i64::MAX);
    /// Millionths that are taken off a price.
    DiscountPpm => integer(1, 1_000_000);
    /// A version of an offer.
    OfferVersion => integer(1, i64::from(i32::MAX));
    /// A percentage.
    Percent => integer(1, 100);
    /// The name of a Kubernetes object.
    ObjectName => text("^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$", 1, 63);
    /// A host name or an IPv4 address in lower case.
    PublicAddress => text("^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$", 1, 253);
    /// The name of a port of a service.
    PortName => text("^[a-z](?:[-a-z0-9]{0,13}[a-z0-9])?$", 1, 15);
    /// What containers read: any text without U+0000.
    EntryValue => text("^[^\\x00]*$", 0, MAX_VALUE);
    /// A part of a name, to search for.
    SearchText => ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .pattern(Some("^[^\\x00]+$"))
        .min_length(Some(1));
    /// The CloudEvents `type` of an event. Sealed events may have a former one.
    CloudEventType => ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .enum_values(Some(event_types()));
    /// The CloudEvents `source` of an event.
    CloudEventSource => ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .enum_values(Some(Source::VARIANTS.iter().map(|source| wire_source(source))));
    /// The name of an event type.
    EventTypeName => text("^[A-Za-z]+$", 1, 64);
    /// The name of a variable or secret in a path. A token is never part of a path.
    EntryKey => text("^(?!tu_)[A-Za-z_][A-Za-z0-9_]*$", 1, MAX_NAME);
    /// A project, by name or id.
    ProjectKey => key::<noun::Project>();
    /// A service, by name or id.
    ServiceKey => key::<noun::Service>();
    /// A service or project, by id.
    UnitKey => OneOfBuilder::new()
        .item(Id::<noun::Service>::schema())
        .item(Id::<noun::Project>::schema());
    /// A cluster, by name or id.
    ClusterKey => key::<noun::Cluster>();
    /// An org, by name or id.
    OrgKey => key::<noun::Org>();
    /// The id of an event.
    EventKey => Id::<noun::Event>::schema();
}

fn event_types() -> impl Iterator<Item = String> {
    let former = FORMER_TYPES.into_iter().map(|(former, _)| former);
    EventType::VARIANTS.iter().copied().chain(former).map(|name| wire_type(name, EVENT_VERSION))
}

/// A name or an id of this noun.
fn key<N: Noun>() -> OneOfBuilder {
    OneOfBuilder::new().item(Name::schema()).item(Id::<N>::schema())
}
