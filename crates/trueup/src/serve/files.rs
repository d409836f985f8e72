//! How many connections and streams this process may have, from how many files it may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trueup_http::{Limits, Streams};

/// Files that are not for clients: databases, the cluster's watches, logs, the children's pipes.
const OWN: u64 = 256;

/// Raises the limit of open files as far as the system allows; returns what it is now.
pub(super) fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "cannot raise the limit of open files; serving fewer connections");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What is served at once with this many files. Each connection is a file, and so is each unit of
/// weight of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capacity {
    connections: usize,
    connections_each: usize,
    streams: usize,
    streams_each: usize,
}

impl Capacity {
    pub(super) fn of(files: u64) -> Self {
        let half = usize::try_from(files.saturating_sub(OWN) / 2).unwrap_or(usize::MAX);
        let (connections, streams) = (half.clamp(16, 8192), half.clamp(16, 10_000));
        Self {
            connections,
            connections_each: (connections / 4).clamp(8, 1024),
            streams,
            streams_each: (streams / 4).clamp(8, 1000),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        let Self { connections, connections_each, .. } = *self;
        Limits { connections, connections_each, ..Limits::default() }
    }

    pub(super) fn streams(&self) -> Streams {
        Streams::new(self.streams_each, self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M3: what is accepted never needs more files than there are.
    #[test]
    fn connections_and_streams_fit_into_the_files() {
        for files in [1024, 4096, 16_384, 1_048_576] {
            let Capacity { connections, connections_each, streams, streams_each } =
                Capacity::of(files);
            let most = u64::try_from(connections + streams).unwrap() + OWN;
            assert!(most <= files, "{most} of {files}");
            assert!(connections_each * 2 <= connections && streams_each * 2 <= streams);
        }
        let Capacity { connections, streams, streams_each, .. } = Capacity::of(1_048_576);
        assert_eq!((connections, streams, streams_each), (8192, 10_000, 1000));
    }

    #[test]
    fn limit_of_files_is_raised_to_what_the_system_allows() {
        let raised = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, now.maximum);
        assert!(raised >= 1024, "{raised}");
    }
}
