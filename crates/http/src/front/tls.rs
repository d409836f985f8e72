//! The server's certificate: read from PEM files, and read again when they change.
//!
//! Certificates are renewed every few weeks by other programs. Connections that are open keep the
//! one they began with; a file that cannot be used is reported and the former certificate stays.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use trueup_model::Clock;

/// How often the files are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or contains no PEM block of its kind.
    #[error("cannot read {path}: {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The key does not belong to the certificate, or is of an unsupported kind.
    #[error("the certificate and its key cannot be used together: {0}")]
    Mismatch(rustls::Error),
}

/// A certificate with its key, and the files they come from.
#[derive(Clone)]
pub struct Certificate {
    files: Arc<Files>,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
    /// What the files were like before they were read.
    read_at: Option<Versions>,
}

/// Inode, time and size of both files.
type Versions = [(u64, i64, i64, u64); 2];

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The certificate for new connections.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Certificate {
    /// Reads a certificate chain and its key.
    ///
    /// # Errors
    /// A file cannot be read, or they do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let read_at = files.version();
        let current = Arc::new(Current(RwLock::new(Arc::new(files.read()?))));
        let resolver: Arc<Current> = Arc::clone(&current);
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Mismatch)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { files: Arc::new(files), current, acceptor, read_at })
    }

    /// Checks the files for changes until it is dropped.
    pub async fn reload_on_change(&self, clock: &dyn Clock) {
        let mut seen = self.read_at;
        loop {
            clock.sleep(CHECK_INTERVAL).await;
            let found = self.files.version();
            // Files are replaced one after the other: a pair that does not fit is tried again when
            // the second file changes.
            if found != seen {
                self.reload();
                seen = found;
            }
        }
    }

    /// Reads the files again and uses them, if they can be used.
    fn reload(&self) {
        match self.files.read() {
            Ok(read) => {
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                tracing::info!(file = %self.files.certificate.display(), "certificate reloaded");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot reload the certificate; the former one stays in use");
            }
        }
    }

    pub(super) async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

impl Files {
    fn read(&self) -> Result<CertifiedKey, CertificateError> {
        let wrong =
            |path: &Path, why: String| CertificateError::File { path: path.to_owned(), why };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(&self.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "it contains no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| wrong(&self.key, error.to_string()))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(CertificateError::Mismatch)
    }

    /// What changes when a file is written or replaced; `None` if one cannot be found.
    fn version(&self) -> Option<Versions> {
        let of = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
        };
        Some([of(&self.certificate)?, of(&self.key)?])
    }
}
