//! Notifications between processes that share a database, with NOTIFY and LISTEN.
//!
//! Best effort: a notification sent while no process listens is lost, so every receiver also polls.

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::work::signal::Notification;
use crate::{Error, Worker};

const CHANNEL: &str = "trueup";

/// Receives notifications that are sent after it was created.
#[derive(Debug)]
pub struct Listener {
    inner: PgListener,
}

impl Listener {
    /// The next notification and its sender; `None` once the connection is lost.
    ///
    /// # Errors
    /// The database returned an error.
    pub async fn next(&mut self) -> Result<Option<(String, Notification)>, Error> {
        while let Some(message) = self.inner.try_recv().await? {
            if let Some(notification) = parse(message.payload()) {
                return Ok(Some(notification));
            }
        }
        Ok(None)
    }
}

/// Skips unknown kinds: they come from a newer version, and polling covers them.
fn parse(payload: &str) -> Option<(String, Notification)> {
    let (sender, kind) = payload.rsplit_once(' ')?;
    let notification =
        Notification::ALL.into_iter().find(|notification| notification.as_str() == kind)?;
    Some((sender.to_owned(), notification))
}

impl Worker {
    /// Notifies every listening process; `name` is the sender.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ring(&self, name: &str, notification: Notification) -> Result<(), Error> {
        sqlx::query("select pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(format!("{name} {}", notification.as_str()))
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Starts to listen on a connection outside the pool, so that a hanging one costs no pool slot.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn listen(&self) -> Result<Listener, Error> {
        let options = self.pool().connect_options().as_ref().clone();
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let mut inner = PgListener::connect_with(&pool).await?;
        inner.ignore_pool_close_event(true);
        inner.eager_reconnect(false);
        inner.listen(CHANNEL).await?;
        Ok(Listener { inner })
    }
}
