//! A Postgres that belongs to one test: for what concerns a whole server, such as its roles.

use std::path::PathBuf;

use trueup_local::Progress;
use trueup_local::layout::cache_dir;
use trueup_local::postgres::{Options, Postgres};

/// A new server without anything in it. End it with [`OwnPostgres::stop`].
#[derive(Debug)]
pub struct OwnPostgres {
    server: Postgres,
    dir: PathBuf,
}

impl OwnPostgres {
    /// Starts one in a folder of this name.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start(name: &str) -> Self {
        let dir = cache_dir().join("test-servers").join(format!("{name}-{}", std::process::id()));
        let options = Options { dir: dir.clone(), durable: false };
        let server = Postgres::adopt_or_start(&options, &Progress::new()).await;
        Self { server: server.expect("Postgres should start"), dir }
    }

    /// Where somebody with all rights connects.
    #[must_use]
    pub fn admin_url(&self) -> String {
        self.server.admin_url()
    }

    /// Ends it, and removes its folder.
    ///
    /// # Panics
    /// It does not end.
    pub async fn stop(self) {
        self.server.stop().await.expect("Postgres should stop");
        std::fs::remove_dir_all(&self.dir).expect("its folder should be removed");
    }
}
