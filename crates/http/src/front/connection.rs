//! One connection: HTTP/1.1 or HTTP/2, its limits, and the address of its client.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::front::idle::{InFlight, Timed};
use crate::front::proxy::{ClientAddress, Encrypted, TrustedProxies};
use crate::front::serve::Limits;
use crate::front::stalled::Stalled;

/// The most requests in flight on one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 100;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) proxies: TrustedProxies,
    /// Whether the connection is encrypted, or comes from a proxy that terminates TLS.
    pub(super) encrypted: bool,
}

/// Answers the requests of a connection until it ends, or until `stop`.
pub(super) async fn answer<S>(
    stream: S,
    is_http2: bool,
    peer: Peer,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Stalled::new(stream, limits.stalled);
    let in_flight = Arc::<InFlight>::default();
    let counted = Arc::clone(&in_flight);
    let service = service_fn(move |request| {
        respond(router.clone(), peer.clone(), Arc::clone(&counted), request)
    });
    let timer = TokioTimer::new();
    let ended = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(timer)
            .max_concurrent_streams(HTTP2_STREAMS)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            // A peer that vanished does not answer a ping.
            .keep_alive_interval(Some(limits.headers))
            .keep_alive_timeout(limits.headers);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = in_flight.idle(limits) => Ok(()),
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(timer)
            // `Timed` distinguishes an idle connection from slow headers; this is the upper limit.
            .header_read_timeout(limits.idle.saturating_add(limits.headers))
            .max_headers(limits.header_count)
            .max_buf_size(limits.header_bytes);
        let stream = Timed::new(stream, in_flight, limits);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "connection failed");
    }
}

/// Answers one request. It counts as in flight until its response was sent.
async fn respond(
    router: Router,
    peer: Peer,
    in_flight: Arc<InFlight>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let guard = in_flight.enter();
    let mut request = request.map(Body::new);
    let client = peer.proxies.client(peer.address, request.headers());
    request.extensions_mut().insert(ClientAddress(client));
    let encrypted = peer.encrypted || peer.proxies.is_encrypted(peer.address, request.headers());
    request.extensions_mut().insert(Encrypted(encrypted));
    let response = router.oneshot(request).await?;
    Ok(response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _in_flight = &guard;
            frame
        }))
    }))
}
