//! What a process loads to prove who it is: its certificate, its key, and the authority it trusts.
//!
//! Three files come in; an [`Identity`] goes out that was checked as a peer would check it. So a wrong,
//! stale or mixed-up file is an error with its name at start, never a failed handshake later.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, InconsistentKeys, RootCertStore};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{PeerIdentity, TlsError, files, installation_of, provider};

/// A process's own certificate and key, with the authority that issued them. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) own: Arc<CertifiedKey>,
    pub(super) peer: PeerIdentity,
    pub(super) installation: String,
    pub(super) ca_pem: Arc<[u8]>,
}

impl Identity {
    /// Loads and checks the files: the authority's certificate, the own certificate (its chain may follow in
    /// the same file), and its key.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let ca_pem = files::read(ca)?;
        let authorities = certificates(ca, &ca_pem)?;
        let chain = certificates(certificate, &files::read(certificate)?)?;
        let key_der = PrivateKeyDer::from_pem_slice(&files::read(key)?)
            .map_err(|_| TlsError::NotPem { path: key.to_owned(), expected: "private key" })?;

        // The TLS library takes no notice of a root's own dates.
        for path_and_der in authorities.iter().map(|der| (ca, der)).chain([(certificate, &chain[0])]) {
            let (path, der) = path_and_der;
            let (_, parsed) = X509Certificate::from_der(der).map_err(|error| {
                TlsError::UnusableCertificate { path: path.to_owned(), reason: error.to_string() }
            })?;
            check_validity(path, &parsed)?;
        }
        let peer = PeerIdentity::from_certificate(&chain[0]).map_err(|error| {
            TlsError::UnusableCertificate { path: certificate.to_owned(), reason: error.to_string() }
        })?;
        let own = certified_key(certificate, chain, key, key_der)?;

        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| TlsError::UnusableCertificate {
                path: ca.to_owned(),
                reason: error.to_string(),
            })?;
        }
        let roots = Arc::new(roots);
        check_issuer(&roots, &own, certificate, ca)?;
        let installation = installation_of(&ca_pem)?;
        Ok(Self { roots, own: Arc::new(own), peer, installation, ca_pem: ca_pem.into() })
    }

    /// Who this process is.
    pub fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    /// The installation its authority stands for; see [`Authority::installation`](super::Authority::installation).
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The authority's certificate as it was loaded.
    pub fn ca_pem(&self) -> &[u8] {
        &self.ca_pem
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Identity")
            .field("peer", &self.peer)
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

/// The certificates in a PEM file; at least one.
pub(super) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_pem = || TlsError::NotPem { path: path.to_owned(), expected: "certificate" };
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| not_pem())?;
    if found.is_empty() { Err(not_pem()) } else { Ok(found) }
}

/// Whether now lies between the certificate's first and last moment.
pub(super) fn check_validity(path: &Path, certificate: &X509Certificate<'_>) -> Result<(), TlsError> {
    let validity = certificate.validity();
    let (not_before, not_after) = (validity.not_before.to_datetime(), validity.not_after.to_datetime());
    let now = OffsetDateTime::now_utc();
    if now > not_after {
        Err(TlsError::Expired { path: path.to_owned(), not_after: moment(not_after) })
    } else if now < not_before {
        Err(TlsError::NotYetValid { path: path.to_owned(), not_before: moment(not_before) })
    } else {
        Ok(())
    }
}

fn certified_key(
    certificate: &Path,
    chain: Vec<CertificateDer<'static>>,
    key: &Path,
    key_der: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    let signer = provider()
        .key_provider
        .load_private_key(key_der)
        .map_err(|error| TlsError::UnusableKey { path: key.to_owned(), reason: error.to_string() })?;
    let own = CertifiedKey::new(chain, signer);
    match own.keys_match() {
        Ok(()) => Ok(own),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::KeyMismatch { certificate: certificate.to_owned(), key: key.to_owned() })
        }
        Err(error) => Err(TlsError::UnusableKey { path: key.to_owned(), reason: error.to_string() }),
    }
}

/// Verifies the own certificate as a server would: every role can dial, so every certificate must pass.
fn check_issuer(
    roots: &Arc<RootCertStore>,
    own: &CertifiedKey,
    certificate: &Path,
    ca: &Path,
) -> Result<(), TlsError> {
    let unusable = |reason: String| TlsError::UnusableCertificate { path: certificate.to_owned(), reason };
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider())
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    match verifier.verify_client_cert(&own.cert[0], &own.cert[1..], UnixTime::now()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Err(TlsError::IssuedByAnother { certificate: certificate.to_owned(), ca: ca.to_owned() }),
        Err(error) => Err(unusable(error.to_string())),
    }
}

fn moment(at: OffsetDateTime) -> String {
    let (date, hour, minute, second) = (at.date(), at.hour(), at.minute(), at.second());
    format!("{date} {hour:02}:{minute:02}:{second:02} UTC")
}
