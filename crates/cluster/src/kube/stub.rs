//! A server that sends one fixed response and closes, for faults that a real server cannot show.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::Kube;

/// A client for a server on this port.
pub(super) fn client(port: u16) -> Kube {
    let url = format!("http://127.0.0.1:{port}").parse().unwrap();
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    Kube::new(kube::Client::try_from(config).unwrap())
}

/// Runs `call` with a client whose server reads one request, sends `response` and closes.
pub(super) async fn answered_with<T>(response: &str, call: impl AsyncFnOnce(Kube) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kube = client(listener.local_addr().unwrap().port());
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert_ne!(socket.read(&mut buffer).await.unwrap(), 0);
        socket.write_all(response.as_bytes()).await.unwrap();
    };
    tokio::join!(call(kube), serve).0
}
