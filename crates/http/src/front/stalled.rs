//! A limit for writes that make no progress: a client that does not read what it asked for holds a
//! connection, a stream and what feeds it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when the client accepts nothing for this long.
#[derive(Debug)]
pub(super) struct Stalled<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalled<S> {
    pub(super) const fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, deadline: None }
    }

    /// The result of a write: one that waits for too long fails.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn write_to_a_client_that_reads_nothing_fails_after_the_limit() {
        let (_client, server) = duplex(64);
        let mut stream = Stalled::new(server, LIMIT);
        let begun = Instant::now();
        let error = stream.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_is_served_as_long_as_it_reads() {
        let (mut client, server) = duplex(64);
        let mut stream = Stalled::new(server, LIMIT);
        let reading = async {
            for _ in 0..10 {
                sleep(LIMIT / 2).await;
                client.read_exact(&mut [0; 64]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 640]), reading);
        written.unwrap();
    }
}
