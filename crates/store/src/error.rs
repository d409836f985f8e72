//! Errors of the database, distinguished by what the caller should do.

use trueup_rules::rate::NotComputable;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres is unreachable or closed the connection. Nothing was committed; retry later.
    #[error("the database is unavailable")]
    Unavailable(#[source] sqlx::Error),
    /// The connection was lost during a commit: the change may or may not be durable.
    #[error("the database connection was lost during a commit; the outcome is unknown")]
    CommitUnknown(#[source] sqlx::Error),
    /// Postgres did not answer in time. The statement may still have been executed.
    #[error("the database timed out")]
    Silent,
    /// This holder lost its lease: another holder has a newer epoch.
    #[error("the lease on this cluster was lost to another holder")]
    Fenced,
    /// A stored value cannot be decoded: a defect, or a row written by a newer version.
    #[error("a stored {what} cannot be decoded")]
    Corrupt {
        /// The kind of value.
        what: &'static str,
        /// The decoding error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A concurrent transaction changed the same rows. Retry.
    #[error("a concurrent transaction changed the same rows")]
    Overtaken,
    /// Any other error of the database.
    #[error("the database rejected a statement")]
    Database(#[source] sqlx::Error),
    /// A schema migration failed.
    #[error("a schema migration failed")]
    Migrate(#[source] sqlx::migrate::MigrateError),
}

impl Error {
    pub(crate) fn corrupt(
        what: &'static str,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Corrupt { what, source: Box::new(source) }
    }

    /// Whether Postgres rejected a text: it contains a NUL byte or is not valid UTF-8.
    #[must_use]
    pub fn is_about_text(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().is_some_and(|code| matches!(&*code, "22021" | "22P05"))
    }

    /// Whether this is a defect in Trueup or in a row rather than a transient failure: a retry
    /// would fail the same way.
    #[must_use]
    pub fn is_defect(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::CommitUnknown(_)
            | Self::Silent
            | Self::Fenced
            | Self::Overtaken
            | Self::Migrate(_) => false,
            Self::Corrupt { .. } => true,
            // Class 22: the data. Class 23: a constraint. Class 42: the statement. Class 54: a limit.
            Self::Database(sqlx::Error::Database(db_error)) => db_error
                .code()
                .is_some_and(|code| matches!(code.get(..2), Some("22" | "23" | "42" | "54"))),
            Self::Database(_) => true,
        }
    }

    /// The message with its source, for operators. It never contains stored values.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Corrupt { what, source } => {
                format!("a stored {what} cannot be decoded: {source}")
            }
            Self::Unavailable(_)
            | Self::CommitUnknown(_)
            | Self::Silent
            | Self::Fenced
            | Self::Overtaken
            | Self::Database(_)
            | Self::Migrate(_) => self.to_string(),
        }
    }

    /// Whether a concurrent transaction caused this, so that a retry helps: the name was taken in
    /// the meantime, or both locked the same rows in another order.
    pub(crate) fn is_race(&self) -> bool {
        const TAKEN: [&str; 3] = ["services_name_key", "projects_name_key", "domains_own_key"];
        if matches!(self, Self::Overtaken) {
            return true;
        }
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.constraint().is_some_and(|constraint| TAKEN.contains(&constraint))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        // Serialization failure or deadlock: Postgres chose this transaction as the victim.
        if let sqlx::Error::Database(db_error) = &error
            && db_error.code().is_some_and(|code| matches!(&*code, "40001" | "40P01"))
        {
            return Self::Overtaken;
        }
        let unreachable = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_) => true,
            // Class 57P: the server is starting up or shutting down, or an admin ended the session.
            // Class 08: connection errors.
            sqlx::Error::Database(db_error) => db_error
                .code()
                .is_some_and(|code| code.starts_with("57P") || code.starts_with("08")),
            _ => false,
        };
        if unreachable { Self::Unavailable(error) } else { Self::Database(error) }
    }
}

impl From<NotComputable> for Error {
    fn from(source: NotComputable) -> Self {
        Self::corrupt("price", source)
    }
}
