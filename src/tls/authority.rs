//! The certificate authority of one installation: `ca.pem` and `ca.key` in one folder.
//!
//! It is made once and never overwritten, because every peer trusts exactly this key. It issues
//! certificates whose URI says who the holder is; keys are ECDSA P-256. What is issued comes back as a
//! value ([`Issued`]); writing it to files is a step of its own.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::files::{self, PRIVATE, PUBLIC};
use super::identity::{self, check_validity};
use super::peer::RESERVED_SUFFIX;
use super::{PeerIdentity, Role, TlsError};

const CA_CERTIFICATE: &str = "ca.pem";
const CA_KEY: &str = "ca.key";
const CA_LIFE: time::Duration = time::Duration::days(3653);
const CA_NAME_MAX: usize = 40;
/// How far back a certificate begins, for peers whose clock is behind.
const CLOCK_SKEW: time::Duration = time::Duration::minutes(5);

/// A certificate authority, ready to issue.
pub struct Authority {
    certificate_pem: String,
    not_after: OffsetDateTime,
    installation: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority in the folder `dir`, which is made if need be. Refuses if one is there.
    ///
    /// `name` is for people only; it appears in the issuer of every certificate.
    pub fn init(dir: &Path, name: &str) -> Result<Self, TlsError> {
        if name.is_empty() || name.chars().count() > CA_NAME_MAX || name.chars().any(char::is_control) {
            return Err(TlsError::InvalidAuthorityName { given: name.to_owned() });
        }
        files::make_folder(dir)?;
        let (certificate_path, key_path) = (dir.join(CA_CERTIFICATE), dir.join(CA_KEY));
        for path in [&certificate_path, &key_path] {
            if path.symlink_metadata().is_ok() {
                return Err(TlsError::AuthorityExists { path: path.clone() });
            }
        }
        let key = new_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("Plumbline CA {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = OffsetDateTime::now_utc();
        params.not_before = now - CLOCK_SKEW;
        params.not_after = now + CA_LIFE;
        let certificate = params.self_signed(&key).map_err(|error| setup(&error))?;

        // The key first: a certificate without its key could not be used, nor told from a whole authority.
        files::create(&key_path, key.serialize_pem().as_bytes(), PRIVATE).map_err(already)?;
        if let Err(error) = files::create(&certificate_path, certificate.pem().as_bytes(), PUBLIC) {
            drop(std::fs::remove_file(&key_path));
            return Err(already(error));
        }
        Self::open(dir)
    }

    /// Opens the authority in the folder `dir`.
    pub fn open(dir: &Path) -> Result<Self, TlsError> {
        let (certificate_path, key_path) = (dir.join(CA_CERTIFICATE), dir.join(CA_KEY));
        let certificate_pem = String::from_utf8(files::read(&certificate_path)?)
            .map_err(|_| TlsError::NotPem { path: certificate_path.clone(), expected: "certificate" })?;
        let key_pem = String::from_utf8(files::read(&key_path)?)
            .map_err(|_| TlsError::NotPem { path: key_path.clone(), expected: "private key" })?;
        let der = identity::certificates(&certificate_path, certificate_pem.as_bytes())?.remove(0);
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| TlsError::UnusableCertificate {
            path: certificate_path.clone(),
            reason: error.to_string(),
        })?;
        check_validity(&certificate_path, &parsed)?;
        let key = KeyPair::from_pem(&key_pem)
            .map_err(|error| TlsError::UnusableKey { path: key_path.clone(), reason: error.to_string() })?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(TlsError::KeyMismatch { certificate: certificate_path, key: key_path });
        }
        let not_after = parsed.validity().not_after.to_datetime();
        let installation = installation_from(&parsed);
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|error| setup(&error))?;
        Ok(Self { certificate_pem, not_after, installation, issuer })
    }

    /// The installation this authority stands for: 16 lower hex digits of the SHA-256 of its public key
    /// (the certificate's `SubjectPublicKeyInfo`), the same for as long as the key is.
    pub fn installation(&self) -> String {
        self.installation.clone()
    }

    /// Issues a certificate with a new key.
    ///
    /// Agents and controllers can serve and dial, and carry their fixed host name besides `extra_names` (DNS
    /// names or IP addresses); operators can only dial, and take no names. The certificate begins five
    /// minutes ago and never outlives the authority.
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        extra_names: &[String],
        validity: Duration,
    ) -> Result<Issued, TlsError> {
        let now = OffsetDateTime::now_utc();
        let not_after = time::Duration::try_from(validity)
            .ok()
            .and_then(|validity| now.checked_add(validity))
            .map_or(self.not_after, |end| end.min(self.not_after));
        self.issue_between(PeerIdentity::new(role, name)?, extra_names, now - CLOCK_SKEW, not_after)
    }

    pub(super) fn issue_between(
        &self,
        identity: PeerIdentity,
        extra_names: &[String],
        not_before: OffsetDateTime,
        not_after: OffsetDateTime,
    ) -> Result<Issued, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, identity.to_string());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.not_before = not_before;
        params.not_after = not_after;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![SanType::URI(ia5(&identity.uri())?)];
        if let Some(host_name) = identity.host_name() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            params.subject_alt_names.push(SanType::DnsName(ia5(&host_name)?));
            for extra in extra_names {
                params.subject_alt_names.push(extra_name(extra)?);
            }
        } else if !extra_names.is_empty() {
            return Err(TlsError::NamesForClient { role: identity.role });
        }
        let key = new_key()?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|error| setup(&error))?;
        Ok(Issued {
            identity,
            not_after,
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            ca_pem: self.certificate_pem.clone(),
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("installation", &self.installation).finish_non_exhaustive()
    }
}

/// A certificate with its key, just issued; nothing of it is on disk yet.
pub struct Issued {
    /// Who the certificate is for.
    pub identity: PeerIdentity,
    /// The certificate's last moment.
    pub not_after: OffsetDateTime,
    certificate_pem: String,
    key_pem: String,
    ca_pem: String,
}

/// Where an issued certificate was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedPaths {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, readable by the owner only.
    pub key: PathBuf,
}

impl Issued {
    /// Writes `<role>-<name>.pem`, `<role>-<name>.key` and, if it is not there, `ca.pem` into the folder `dir`.
    ///
    /// Refuses to replace a certificate or key unless `overwrite`; never replaces the `ca.pem` of another
    /// authority. Certificate and key are two files: whoever loads them between the two steps of an
    /// overwrite is told that they do not belong together, and loads again.
    pub fn write(&self, dir: &Path, overwrite: bool) -> Result<IssuedPaths, TlsError> {
        let PeerIdentity { role, name } = &self.identity;
        let paths = IssuedPaths {
            ca: dir.join(CA_CERTIFICATE),
            certificate: dir.join(format!("{role}-{name}.pem")),
            key: dir.join(format!("{role}-{name}.key")),
        };
        files::make_folder(dir)?;
        if !overwrite {
            for path in [&paths.certificate, &paths.key] {
                if path.symlink_metadata().is_ok() {
                    return Err(TlsError::FileExists { path: path.clone() });
                }
            }
        }
        match files::create(&paths.ca, self.ca_pem.as_bytes(), PUBLIC) {
            Err(TlsError::FileExists { path }) => {
                let there = installation_of(&files::read(&path)?).ok();
                if there != installation_of(self.ca_pem.as_bytes()).ok() {
                    return Err(TlsError::OtherAuthorityBeside { path });
                }
            }
            written => written?,
        }
        let place = if overwrite { files::replace } else { files::create };
        place(&paths.key, self.key_pem.as_bytes(), PRIVATE)?;
        place(&paths.certificate, self.certificate_pem.as_bytes(), PUBLIC)?;
        Ok(paths)
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Issued")
            .field("identity", &self.identity)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// The installation that the authority with this certificate stands for; see [`Authority::installation`].
/// Of several certificates the first counts.
pub fn installation_of(ca_pem: &[u8]) -> Result<String, TlsError> {
    let malformed = |reason: String| TlsError::MalformedCertificate { reason };
    let der = CertificateDer::from_pem_slice(ca_pem).map_err(|error| malformed(error.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| malformed(error.to_string()))?;
    Ok(installation_from(&parsed))
}

fn installation_from(ca: &X509Certificate<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, ca.public_key().raw);
    let head = digest.as_ref().iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
    format!("{head:016x}")
}

fn new_key() -> Result<KeyPair, TlsError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| setup(&error))
}

fn extra_name(given: &str) -> Result<SanType, TlsError> {
    if let Ok(address) = given.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let name = DnsName::try_from(given)
        .map_err(|_| TlsError::InvalidExtraName { given: given.to_owned() })?
        .as_ref()
        .trim_end_matches('.')
        .to_ascii_lowercase();
    if name.rsplit('.').next() == Some(RESERVED_SUFFIX) {
        return Err(TlsError::ReservedExtraName { given: given.to_owned() });
    }
    Ok(SanType::DnsName(ia5(&name)?))
}

fn ia5(text: &str) -> Result<rcgen::string::Ia5String, TlsError> {
    text.try_into().map_err(|error: rcgen::Error| setup(&error))
}

fn setup(error: &rcgen::Error) -> TlsError {
    TlsError::Setup { reason: error.to_string() }
}

fn already(error: TlsError) -> TlsError {
    match error {
        TlsError::FileExists { path } => TlsError::AuthorityExists { path },
        other => other,
    }
}
