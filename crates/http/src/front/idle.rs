//! Timeouts of an HTTP/1.1 connection: for headers that arrive slowly, and for idle time.
//!
//! hyper has one timeout for both. They differ by a lot: a client with a connection pool expects an
//! idle connection to stay open for a minute or more, and one that sends its headers byte by byte
//! should be cut off early.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::front::serve::Limits;

/// The requests of a connection.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    now: AtomicUsize,
    ever: AtomicUsize,
}

impl InFlight {
    /// Counts a request until the guard is dropped.
    pub(super) fn enter(self: Arc<Self>) -> InFlightGuard {
        self.now.fetch_add(1, Ordering::Relaxed);
        self.ever.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(self)
    }

    fn is_empty(&self) -> bool {
        self.now.load(Ordering::Relaxed) == 0
    }

    /// How many requests there were so far.
    fn ever(&self) -> usize {
        self.ever.load(Ordering::Relaxed)
    }

    /// Returns when no request began within the timeout of the headers, or none was in flight for
    /// the idle time. For HTTP/2, whose pings would keep a connection without requests open.
    pub(super) async fn idle(&self, limits: Limits) {
        let (mut limit, mut before) = (limits.headers, self.ever());
        loop {
            sleep(limit).await;
            if self.is_empty() && self.ever() == before {
                return;
            }
            (limit, before) = (limits.idle, self.ever());
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlightGuard(Arc<InFlight>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rest of the headers, or the first request.
    Headers,
    /// A response in flight; it has a deadline of its own.
    Response,
    /// The next request.
    Idle,
}

/// A stream whose reads fail after the timeout of its phase.
#[derive(Debug)]
pub(super) struct Timed<S> {
    stream: S,
    in_flight: Arc<InFlight>,
    /// How many requests there were when the phase was last decided.
    requests: usize,
    limits: Limits,
    phase: Phase,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Timed<S> {
    pub(super) fn new(stream: S, in_flight: Arc<InFlight>, limits: Limits) -> Self {
        let deadline = Box::pin(sleep(limits.headers));
        Self { stream, in_flight, requests: 0, limits, phase: Phase::Headers, deadline }
    }

    fn enter(&mut self, phase: Phase, limit: Duration) {
        self.phase = phase;
        self.deadline.as_mut().reset(Instant::now() + limit);
    }

    /// Whether a request began since the last call. It may have ended, too: a handler that need not
    /// wait is done between two reads.
    fn began(&mut self) -> bool {
        let requests = self.in_flight.ever();
        std::mem::replace(&mut self.requests, requests) != requests
    }

    /// The phase after a read that returned bytes.
    fn received(&mut self) {
        let began = self.began();
        if self.in_flight.is_empty() && (began || self.phase != Phase::Headers) {
            self.enter(Phase::Headers, self.limits.headers);
        }
    }

    /// The phase while there is nothing to read; whether its time is up.
    fn waits(&mut self, context: &mut Context<'_>) -> bool {
        if self.began() {
            self.phase = Phase::Response;
        }
        if !self.in_flight.is_empty() {
            self.phase = Phase::Response;
            return false;
        }
        if self.phase == Phase::Response {
            self.enter(Phase::Idle, self.limits.idle);
        }
        self.deadline.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                if buffer.filled().len() > before {
                    self.received();
                }
                Poll::Ready(read)
            }
            Poll::Pending if self.waits(context) => {
                Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const HEADERS: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(120);

    fn connection() -> (DuplexStream, Timed<DuplexStream>, Arc<InFlight>) {
        let (client, server) = duplex(64);
        let in_flight = Arc::<InFlight>::default();
        let limits = Limits { headers: HEADERS, idle: IDLE, ..Limits::default() };
        (client, Timed::new(server, Arc::clone(&in_flight), limits), in_flight)
    }

    /// How long a read waits until it times out.
    async fn waited(stream: &mut Timed<DuplexStream>) -> Duration {
        let begun = Instant::now();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        begun.elapsed()
    }

    /// Reads what is there, then has a request in flight for a while.
    async fn serve_one(stream: &mut Timed<DuplexStream>, in_flight: &Arc<InFlight>) {
        stream.read_u8().await.unwrap();
        let request = Arc::clone(in_flight).enter();
        let nothing = tokio::time::timeout(IDLE * 10, stream.read_u8()).await;
        assert!(nothing.is_err(), "a response in flight has no timeout here");
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn first_request_must_begin_within_the_header_timeout() {
        let (_client, mut stream, _) = connection();
        assert_eq!(waited(&mut stream).await, HEADERS);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_may_be_idle_for_longer_between_requests() {
        let (mut client, mut stream, in_flight) = connection();
        client.write_u8(b'G').await.unwrap();
        serve_one(&mut stream, &in_flight).await;
        assert_eq!(waited(&mut stream).await, IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn response_that_is_ready_at_once_starts_the_idle_time() {
        let (mut client, mut stream, in_flight) = connection();
        for _ in 0..3 {
            client.write_u8(b'G').await.unwrap();
            stream.read_u8().await.unwrap();
            drop(Arc::clone(&in_flight).enter());
            tokio::time::advance(HEADERS / 2).await;
        }
        assert_eq!(waited(&mut stream).await, IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn http2_connection_without_requests_is_idle() {
        let limits = Limits { headers: HEADERS, idle: IDLE, ..Limits::default() };
        let in_flight = Arc::<InFlight>::default();
        let begun = Instant::now();
        in_flight.idle(limits).await;
        assert_eq!(begun.elapsed(), HEADERS, "no request ever began");

        let request = Arc::clone(&in_flight).enter();
        let long = tokio::time::timeout(IDLE * 10, in_flight.idle(limits)).await;
        assert!(long.is_err(), "a stream may be open for long");
        drop(request);
        let begun = Instant::now();
        in_flight.idle(limits).await;
        assert!(begun.elapsed() <= IDLE, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_headers_of_a_later_request_time_out_early() {
        let (mut client, mut stream, in_flight) = connection();
        client.write_u8(b'G').await.unwrap();
        serve_one(&mut stream, &in_flight).await;
        client.write_u8(b'G').await.unwrap();
        stream.read_u8().await.unwrap();
        assert_eq!(waited(&mut stream).await, HEADERS);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_do_not_extend_the_header_timeout() {
        let (mut client, mut stream, _) = connection();
        let begun = Instant::now();
        loop {
            client.write_u8(b'x').await.unwrap();
            stream.read_u8().await.unwrap();
            let next = tokio::time::timeout(Duration::from_secs(7), stream.read_u8()).await;
            if next.is_ok_and(|read| read.is_err()) {
                break;
            }
        }
        assert_eq!(begun.elapsed(), HEADERS);
    }
}
