//! Live logs of a service's pods.
//!
//! This crate does not use the cluster. The pods are those last observed; their logs come through
//! [`LiveLogs`], a read-only port that the binary connects to the cluster.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll, select_all, unfold};
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::log::LogLine;
use trueup_api::schema::{LogTail, MAX_LINES, ObjectName};
use trueup_model::clock::Sleep;
use trueup_model::observation::PodSeen;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::stream::limit::Open;
use crate::stream::token_watch::StreamToken;
use crate::stream::watched_token::TokenStatus;
use crate::write::request::Target;

/// The interval of empty lines, which reveal a broken connection.
const BEAT: Duration = Duration::from_secs(15);
/// The most pods read by one request.
const MOST_PODS: usize = 50;

/// The lines of one pod; an error says why they ended.
pub type Lines = BoxStream<'static, Result<String, String>>;

/// Reads the logs of pods.
pub trait LiveLogs: Debug + Send + Sync {
    /// A pod's newest lines, and with `follow` those to come; or why they cannot be read.
    fn read(&self, of: LogSource) -> BoxFuture<'static, Result<Lines, String>>;
}

/// Logs without a cluster: every read fails.
#[derive(Debug)]
pub struct NoLogs;

impl LiveLogs for NoLogs {
    fn read(&self, _of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        futures::future::ready(Err("no cluster is connected".to_owned())).boxed()
    }
}

/// A pod, and which of its lines to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSource {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// How many of the newest lines.
    pub tail: u32,
    /// Whether to follow new lines.
    pub follow: bool,
}

/// Which lines to read.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// The number of newest lines of each pod, up to 10000; the default is 100.
    #[param(value_type = Option<LogTail>)]
    tail: Option<u32>,
    /// Whether to follow new lines.
    #[serde(default)]
    follow: bool,
    /// Only this pod.
    #[param(value_type = Option<ObjectName>)]
    pod: Option<String>,
}

/// Reads the logs of a service's pods: one JSON object per line, and empty lines as keep-alive.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/logs",
    operation_id = "service_logs", tag = "services",
    params(Target, Wanted),
    extensions(("x-problems" = json!([Code::NameTaken, Code::TooManyStreams]))),
    responses((status = 200, description = "log lines as they are written",
               content_type = "application/x-ndjson", body = LogLine)))]
pub(crate) async fn service_logs(
    State(state): State<AppState>,
    caller: Caller,
    Path(target): Path<Target>,
    Query(wanted): Query<Wanted>,
) -> Answer<Response> {
    let app = caller.within(&state.app, Permission::ReadContent)?;
    let tail = wanted.tail.unwrap_or(100);
    if tail > MAX_LINES {
        let detail = format!("`tail` must be from 0 to {MAX_LINES}");
        return Err(Failure::new(Code::BadRequest, detail));
    }
    let found = app.find_pods(caller.org, &target.project, &target.service).await?;
    let (namespace, mut pods) = found.ok_or_else(|| Failure::not_found("service"))?;
    if let Some(only) = &wanted.pod {
        pods.retain(|pod| pod.name == *only);
        if pods.is_empty() {
            return Err(Failure::not_found("pod"));
        }
    }
    // Each pod is a connection to its node.
    let reads = pods.iter().take(MOST_PODS).filter(|pod| !pod.simulated).count();
    let open = state.streams.open(caller.org, reads.max(1))?;
    let lines = select_all(sources(&state, &namespace, pods, tail, wanted.follow));
    let token = state.streams.tokens().join(&state, &caller);
    let beat = state.clock.sleep(BEAT);
    let tail = Tail { state, token, lines, ready: None, beat, _open: open };
    let body = unfold(Some(tail), |tail| async move {
        let mut tail = tail?;
        let next = tail.next().await?;
        let (text, tail) = match next {
            ControlFlow::Continue(text) => (text, Some(tail)),
            ControlFlow::Break(last) => (last, None),
        };
        Some((Ok::<_, Infallible>(text), tail))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

type Source = BoxStream<'static, LogLine>;

/// A stream per pod; simulated pods and pods beyond the limit yield a notice instead.
fn sources(
    state: &AppState,
    namespace: &str,
    pods: Vec<PodSeen>,
    tail: u32,
    follow: bool,
) -> Vec<Source> {
    let one = |line: LogLine| futures::stream::iter([line]).boxed();
    if pods.is_empty() {
        return vec![one(notice("", "no pods observed; see `trueup describe`"))];
    }
    let left_out = pods.len().saturating_sub(MOST_PODS);
    let mut sources: Vec<Source> = pods
        .into_iter()
        .take(MOST_PODS)
        .map(|pod| {
            if pod.simulated {
                return one(notice(&pod.name, "simulated pod: it has no logs"));
            }
            let (namespace, name) = (namespace.to_owned(), pod.name);
            let reading = state.logs.read(LogSource { namespace, pod: name.clone(), tail, follow });
            reading.map(move |answer| opened(name, answer)).flatten_stream().boxed()
        })
        .collect();
    if left_out > 0 {
        let text = format!("{left_out} more pods are not shown; select one with `pod`");
        sources.push(one(notice("", &text)));
    }
    sources
}

fn opened(pod: String, answer: Result<Lines, String>) -> Source {
    match answer {
        Ok(lines) => lines
            .map(move |line| match line {
                Ok(line) => LogLine { pod: pod.clone(), line: Some(line), notice: None },
                Err(why) => notice(&pod, &format!("log ended: {why}")),
            })
            .boxed(),
        Err(why) => {
            let line = notice(&pod, &format!("cannot read the log: {why}"));
            futures::stream::iter([line]).boxed()
        }
    }
}

fn notice(pod: &str, text: &str) -> LogLine {
    LogLine { pod: pod.to_owned(), line: None, notice: Some(text.to_owned()) }
}

/// A log line as text.
fn text(line: &LogLine) -> Option<String> {
    let mut text = serde_json::to_string(line).ok()?;
    text.push('\n');
    Some(text)
}

/// A log stream. It buffers at most one line: a slow reader slows only itself.
struct Tail {
    state: AppState,
    token: StreamToken,
    lines: SelectAll<Source>,
    /// What was read, until the token is known to be valid.
    ready: Option<String>,
    /// Completes when the next empty line is due.
    beat: Sleep,
    _open: Open,
}

impl Tail {
    /// The next line as text, or the last one to send; `None` at the end and at shutdown.
    ///
    /// The token is checked for each line. While its last check is too old, no line is sent.
    async fn next(&mut self) -> Option<ControlFlow<String, String>> {
        loop {
            if self.state.stop.is_cancelled() {
                return None;
            }
            let may_send = match self.token.status() {
                TokenStatus::Valid => true,
                TokenStatus::Stale => false,
                TokenStatus::Ended(end) => {
                    return text(&notice("", end.notice())).map(ControlFlow::Break);
                }
            };
            if may_send && let Some(line) = self.ready.take() {
                return Some(ControlFlow::Continue(line));
            }
            tokio::select! {
                biased;
                () = self.state.stop.cancelled() => return None,
                () = self.token.changed() => {}
                line = self.lines.next(), if may_send => self.ready = Some(text(&line?)?),
                () = &mut self.beat, if may_send => {
                    self.beat = self.state.clock.sleep(BEAT);
                    self.ready = Some("\n".to_owned());
                }
            }
        }
    }
}
