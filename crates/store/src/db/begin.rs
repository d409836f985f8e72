//! Beginning a transaction so that whoever wants it may go away at any moment.
//!
//! Requests are given up and loops are stopped, also between a BEGIN and its answer. sqlx 0.9 counts a
//! transaction only once it was answered, so it would take the connection back with one open that nobody
//! ends: what is written next on that connection seems to be recorded, and is lost with it. A BEGIN that
//! nobody waits for any more is therefore waited for by a task of its own, which then rolls back.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sqlx::Transaction;
use sqlx::postgres::PgPool;
use tokio::runtime::Handle;

use crate::db::pool::Tx;

type Begun = Result<Tx, sqlx::Error>;

/// A transaction on a connection of this pool.
pub(crate) async fn begin(pool: &PgPool) -> Begun {
    // Until there is a connection nothing was sent: waiting for one may end at any moment.
    let connection = pool.acquire().await?;
    Beginning(Some(Transaction::begin(connection, None))).await
}

/// A BEGIN that is under way, until it was answered.
struct Beginning(Option<Pin<Box<dyn Future<Output = Begun> + Send>>>);

impl Future for Beginning {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let under_way = self.0.as_mut().expect("what has begun should not be asked again");
        let begun = ready!(under_way.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(begun)
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        // Without a runtime there is no pool either that could take the connection back.
        if let (Some(under_way), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            // A transaction that is dropped is rolled back before its connection is used again.
            let _detached = runtime.spawn(under_way);
        }
    }
}
