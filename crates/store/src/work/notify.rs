//! The bell between processes that share a database: rung with NOTIFY, heard with LISTEN.
//!
//! Nothing depends on it. What was rung while nobody listened is lost, and whoever hears nothing polls.

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::work::signal::Notification;
use crate::{Error, Worker};

const CHANNEL: &str = "trueup";

/// Hears what others ring, from its making on.
#[derive(Debug)]
pub struct Listener {
    inside: PgListener,
}

impl Listener {
    /// The next notification and who rang it; nothing once the connection is lost.
    ///
    /// # Errors
    /// The database refuses to go on.
    pub async fn next(&mut self) -> Result<Option<(String, Notification)>, Error> {
        while let Some(rung) = self.inside.try_recv().await? {
            if let Some(heard) = parse(rung.payload()) {
                return Ok(Some(heard));
            }
        }
        Ok(None)
    }
}

/// A word that is not known comes from a newer version, and there is a poll for it.
fn parse(payload: &str) -> Option<(String, Notification)> {
    let (who, what) = payload.rsplit_once(' ')?;
    let notification =
        Notification::ALL.into_iter().find(|notification| notification.as_str() == what)?;
    Some((who.to_owned(), notification))
}

impl Worker {
    /// Tells every process that listens what this one, of that name, has committed.
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

    /// Begins to listen, on a connection of its own: nobody misses one that hangs.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn listen(&self) -> Result<Listener, Error> {
        let options = self.pool().connect_options().as_ref().clone();
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let mut inside = PgListener::connect_with(&pool).await?;
        inside.ignore_pool_close_event(true);
        inside.eager_reconnect(false);
        inside.listen(CHANNEL).await?;
        Ok(Listener { inside })
    }
}
