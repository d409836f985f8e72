//! Meters: the measured quantities, each with its unit and its sources.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::key::Kind;

/// The measured quantities. The list is a registry: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Meter {
    /// Seconds of a pod, by plan.
    PodSeconds,
    /// Seconds of a thousandth of a core.
    CpuMilliSeconds,
    /// Seconds of a mebibyte of memory.
    MemoryMibSeconds,
    /// Seconds of a whole GPU.
    GpuSeconds,
    /// Seconds of a gibibyte of disk.
    DiskGibSeconds,
    /// Bytes sent out of the cluster.
    EgressBytes,
}

impl Meter {
    /// Every meter, in display order.
    pub const ALL: [Self; 6] = [
        Self::PodSeconds,
        Self::CpuMilliSeconds,
        Self::MemoryMibSeconds,
        Self::GpuSeconds,
        Self::DiskGibSeconds,
        Self::EgressBytes,
    ];

    /// Its unit, as printed.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PodSeconds => "pod-second",
            Self::CpuMilliSeconds => "millicore-second",
            Self::MemoryMibSeconds => "MiB-second",
            Self::GpuSeconds => "GPU-second",
            Self::DiskGibSeconds => "GiB-second",
            Self::EgressBytes => "byte",
        }
    }

    /// The source that its objects come from.
    #[must_use]
    pub const fn source(self) -> Source {
        match self {
            Self::PodSeconds
            | Self::CpuMilliSeconds
            | Self::MemoryMibSeconds
            | Self::GpuSeconds => Source::Pods,
            Self::DiskGibSeconds => Source::Claims,
            Self::EgressBytes => Source::Traffic,
        }
    }

    /// The sources it is computed from. If one is silent, nothing is metered any more.
    #[must_use]
    pub const fn sources(self) -> &'static [Source] {
        match self {
            // A pod on an unwatched node is not known to be delivered.
            Self::PodSeconds
            | Self::CpuMilliSeconds
            | Self::MemoryMibSeconds
            | Self::GpuSeconds => &[Source::Pods, Source::Nodes],
            Self::DiskGibSeconds => &[Source::Claims],
            Self::EgressBytes => &[Source::Traffic],
        }
    }
}

/// Where the observations of a meter come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = MeterSource)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Source {
    /// The watch of pods.
    Pods,
    /// The watch of nodes.
    Nodes,
    /// The watch of claims. A volume without a claim is not metered.
    Claims,
    /// Counters of sent bytes.
    Traffic,
}

impl Source {
    /// The sources that are watches.
    pub const WATCHED: [Self; 3] = [Self::Pods, Self::Nodes, Self::Claims];

    /// The watched kind; none for counters.
    #[must_use]
    pub const fn kind(self) -> Option<Kind> {
        match self {
            Self::Pods => Some(Kind::Pod),
            Self::Nodes => Some(Kind::Node),
            Self::Claims => Some(Kind::PersistentVolumeClaim),
            Self::Traffic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meter_names_its_sources_and_parses_back() {
        for meter in Meter::ALL {
            assert!(meter.sources().contains(&meter.source()), "{meter}");
            assert_eq!(meter.to_string().parse::<Meter>(), Ok(meter));
            assert_eq!(serde_json::to_value(meter).unwrap(), meter.to_string());
        }
        let watched = Meter::ALL.into_iter().flat_map(Meter::sources);
        for source in watched {
            assert!(source.kind().is_none_or(Kind::is_recorded), "{source} records no transitions");
        }
    }
}
