//! A Postgres server for one test, for things that concern a whole server, such as roles.

use std::path::PathBuf;

use trueup_local::Progress;
use trueup_local::layout::cache_dir;
use trueup_local::postgres::{Options, Postgres};

/// A new, empty server. Stop it with [`OwnPostgres::stop`].
#[derive(Debug)]
pub struct OwnPostgres {
    server: Postgres,
    dir: PathBuf,
}

impl OwnPostgres {
    /// Starts a server in a folder of this name.
    ///
    /// # Panics
    /// Postgres does not start.
    pub async fn start(name: &str) -> Self {
        let dir = cache_dir().join("test-servers").join(format!("{name}-{}", std::process::id()));
        let options = Options { dir: dir.clone(), durable: false };
        let server = Postgres::adopt_or_start(&options, &Progress::new()).await;
        Self { server: server.expect("Postgres should start"), dir }
    }

    /// The superuser's connection URL.
    #[must_use]
    pub fn admin_url(&self) -> String {
        self.server.admin_url()
    }

    /// Stops it and removes its folder.
    ///
    /// # Panics
    /// Postgres does not stop.
    pub async fn stop(self) {
        self.server.stop().await.expect("Postgres should stop");
        std::fs::remove_dir_all(&self.dir).expect("the folder of Postgres should be removed");
    }
}
