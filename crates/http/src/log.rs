//! Live logs: what a service's pods print, as it is printed.
//!
//! This room cannot see a cluster. Which pods there are is what was observed; what they print comes
//! through [`LiveLogs`], a port that is only for reading and is wired where the cluster is known.

use std::fmt::Debug;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll, select_all, unfold};
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use trueup_api::log::LogLine;
use trueup_api::{Code, Problem};
use trueup_model::observation::PodSeen;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::stream::limit::Open;
use crate::write::request::Target;

/// An empty line this often, so that silence is told apart from a broken connection; and how long a
/// dead token is believed.
const BEAT: Duration = Duration::from_secs(15);
/// The most pods that are read at once.
const MOST_PODS: usize = 50;
const MOST_LINES: u32 = 10_000;

/// Lines of one pod, or why there are none.
pub type Lines = BoxStream<'static, Result<String, String>>;

/// Reads what pods print. It can do nothing else.
pub trait LiveLogs: Debug + Send + Sync {
    /// A pod's newest lines, and with `follow` those to come; or why it cannot be asked.
    fn read(&self, of: LogSource) -> BoxFuture<'static, Result<Lines, String>>;
}

/// Where there is no cluster to read from.
#[derive(Debug)]
pub struct NoLogs;

impl LiveLogs for NoLogs {
    fn read(&self, _of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        futures::future::ready(Err("no cluster is connected".to_owned())).boxed()
    }
}

/// Whose lines, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSource {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// How many of the newest lines.
    pub tail: u32,
    /// Whether those to come are wanted, too.
    pub follow: bool,
}

/// Which lines.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// So many of the newest lines of each pod, up to 10000; 100 where nothing is said.
    tail: Option<u32>,
    /// Whether to go on with the lines to come.
    #[serde(default)]
    follow: bool,
    /// Only this pod.
    pod: Option<String>,
}

/// Reads the logs of a service's pods: one JSON object on each line, empty lines in between.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/logs",
    operation_id = "service_logs", tag = "services",
    params(Target, Wanted),
    responses((status = 200, description = "lines as they are printed",
               content_type = "application/x-ndjson", body = LogLine),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_logs(
    State(state): State<AppState>,
    caller: Caller,
    Path(target): Path<Target>,
    Query(wanted): Query<Wanted>,
) -> Answer<Response> {
    caller.must(Permission::Read)?;
    let tail = wanted.tail.unwrap_or(100);
    if tail > MOST_LINES {
        let detail = format!("`tail` must be from 0 to {MOST_LINES}");
        return Err(Failure::new(Code::BadRequest, detail));
    }
    let found = state.app.find_pods(caller.org, &target.project, &target.service).await?;
    let (namespace, mut pods) = found.ok_or_else(|| Failure::not_found("service"))?;
    if let Some(only) = &wanted.pod {
        pods.retain(|pod| pod.name == *only);
        if pods.is_empty() {
            return Err(Failure::not_found("pod"));
        }
    }
    let open = state.streams.open(caller.org)?;
    let lines = select_all(sources(&state, &namespace, pods, tail, wanted.follow));
    let tail = Tail { state, caller, lines, _open: open };
    let body = unfold(tail, |mut tail| async move {
        let text = tail.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), tail))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

type Source = BoxStream<'static, LogLine>;

/// A stream for each pod; what is simulated or too much says so instead.
fn sources(
    state: &AppState,
    namespace: &str,
    pods: Vec<PodSeen>,
    tail: u32,
    follow: bool,
) -> Vec<Source> {
    let one = |line: LogLine| futures::stream::iter([line]).boxed();
    if pods.is_empty() {
        return vec![one(notice("", "no pod was seen; `trueup describe` says why"))];
    }
    let left_out = pods.len().saturating_sub(MOST_PODS);
    let mut sources: Vec<Source> = pods
        .into_iter()
        .take(MOST_PODS)
        .map(|pod| {
            if pod.simulated {
                return one(notice(&pod.name, "is simulated: nothing runs there and prints"));
            }
            let (namespace, name) = (namespace.to_owned(), pod.name);
            let reading = state.logs.read(LogSource { namespace, pod: name.clone(), tail, follow });
            reading.map(move |answer| opened(name, answer)).flatten_stream().boxed()
        })
        .collect();
    if left_out > 0 {
        let text = format!("{left_out} more pods are left out; name one with `pod`");
        sources.push(one(notice("", &text)));
    }
    sources
}

fn opened(pod: String, answer: Result<Lines, String>) -> Source {
    match answer {
        Ok(lines) => lines
            .map(move |line| match line {
                Ok(line) => LogLine { pod: pod.clone(), line: Some(line), notice: None },
                Err(why) => notice(&pod, &format!("cannot be read any further: {why}")),
            })
            .boxed(),
        Err(why) => {
            let line = notice(&pod, &format!("cannot be asked now: {why}"));
            futures::stream::iter([line]).boxed()
        }
    }
}

fn notice(pod: &str, text: &str) -> LogLine {
    LogLine { pod: pod.to_owned(), line: None, notice: Some(text.to_owned()) }
}

/// A reader. It holds one line at most: a slow reader slows only itself.
struct Tail {
    state: AppState,
    caller: Caller,
    lines: SelectAll<Source>,
    _open: Open,
}

impl Tail {
    /// The next line as text; nothing when it is over, the process stops or the token died.
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            biased;
            () = self.state.stop.cancelled() => None,
            line = self.lines.next() => {
                let mut text = serde_json::to_string(&line?).ok()?;
                text.push('\n');
                Some(text)
            }
            () = self.state.clock.sleep(BEAT) => {
                let valid = self.caller.is_still_valid(&self.state).await;
                valid.unwrap_or(true).then(|| "\n".to_owned())
            }
        }
    }
}
