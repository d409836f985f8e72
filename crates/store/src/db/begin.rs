//! Begins transactions in a cancel-safe way.
//!
//! Requests and loops are cancelled at any await, also between BEGIN and its answer. sqlx 0.9
//! counts a transaction only after the answer, so it would return the connection to the pool with a
//! transaction left open: later writes on it would look committed and be lost with it. When the
//! caller of a BEGIN is cancelled, a detached task waits for the answer and rolls back.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sqlx::Transaction;
use sqlx::postgres::PgPool;
use tokio::runtime::Handle;

use crate::db::pool::Tx;

type Begun = Result<Tx, sqlx::Error>;

/// Begins a transaction on a connection of this pool.
pub(crate) async fn begin(pool: &PgPool) -> Begun {
    // Nothing was sent before there is a connection, so this await may be cancelled.
    let connection = pool.acquire().await?;
    Beginning(Some(Transaction::begin(connection, None))).await
}

/// A BEGIN in flight.
struct Beginning(Option<Pin<Box<dyn Future<Output = Begun> + Send>>>);

impl Future for Beginning {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let in_flight = self.0.as_mut().expect("Beginning should not be polled after completion");
        let begun = ready!(in_flight.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(begun)
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        // Without a runtime there is no pool that could reuse the connection.
        if let (Some(in_flight), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            // Dropping the transaction rolls it back before its connection is reused.
            let _detached = runtime.spawn(in_flight);
        }
    }
}
