//! What can go wrong with the database, told apart by what the caller should do.

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres cannot be reached or went away: nothing is known to be done, try again later.
    #[error("the database cannot be reached")]
    Unavailable(#[source] sqlx::Error),
    /// Postgres went away while a change was being committed: it may be recorded or not.
    #[error("the database went away before it said whether the change is recorded")]
    CommitUnknown(#[source] sqlx::Error),
    /// Postgres did not answer in time, and nobody knows why: the question may have been carried out.
    #[error("the database does not answer")]
    Silent,
    /// This holder's lease is over: another one works on the cluster now.
    #[error("the lease on this cluster is over")]
    Fenced,
    /// A stored value cannot be read: a defect, or a newer version's row.
    #[error("a stored {what} cannot be read")]
    Corrupt {
        /// What was read.
        what: &'static str,
        /// Why it cannot be.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody else changed it while it was looked at: trying again helps.
    #[error("somebody else changed it at the same moment")]
    Overtaken,
    /// Anything else the database says.
    #[error("the database refused a statement")]
    Database(#[source] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the database's schema could not be brought up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
}

impl Error {
    pub(crate) fn corrupt(
        what: &'static str,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Corrupt { what, source: Box::new(source) }
    }

    /// Whether a text cannot be stored at all: it has a zero in it, or is no text.
    #[must_use]
    pub fn is_about_text(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().is_some_and(|code| matches!(&*code, "22021" | "22P05"))
    }

    /// Whether this is a defect in Trueup or in a row, rather than trouble of the database: trying
    /// again would end the same way.
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
            // Class 22: the data. Class 23: a constraint. Class 42: the statement.
            Self::Database(sqlx::Error::Database(said)) => {
                said.code().is_some_and(|code| matches!(code.get(..2), Some("22" | "23" | "42")))
            }
            Self::Database(_) => true,
        }
    }

    /// What it says, with its source: for operators, and never with values in it.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Corrupt { what, source } => format!("a stored {what} cannot be read: {source}"),
            Self::Unavailable(_)
            | Self::CommitUnknown(_)
            | Self::Silent
            | Self::Fenced
            | Self::Overtaken
            | Self::Database(_)
            | Self::Migrate(_) => self.to_string(),
        }
    }

    /// Whether somebody else was at the same thing at the same moment, so that trying again helps:
    /// a name that was taken meanwhile, or the same rows in another order.
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
        // A deadlock or a serialization failure: of those at the same rows, this one was ended.
        if let sqlx::Error::Database(said) = &error
            && said.code().is_some_and(|code| matches!(&*code, "40001" | "40P01"))
        {
            return Self::Overtaken;
        }
        let away = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_) => true,
            // Class 57: the server is shutting down, starting up or was told to end this session.
            // Class 08: the connection itself.
            sqlx::Error::Database(said) => {
                said.code().is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
            }
            _ => false,
        };
        if away { Self::Unavailable(error) } else { Self::Database(error) }
    }
}
