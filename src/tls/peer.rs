//! Who a peer is: its role and name, read from the URI in its certificate.
//!
//! A certificate comes in, a [`PeerIdentity`] goes out. The certificate must already have been verified:
//! this only reads it.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::TlsError;

const SCHEME: &str = "plumbline://";
const NAME_MAX: usize = 63;

/// The suffix of every name that only the authority itself puts into a certificate.
pub(super) const RESERVED_SUFFIX: &str = "plumbline";

/// What a peer is. It decides which methods the peer may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Runs on a Docker host and applies modules there.
    Agent,
    /// Keeps modules and their revisions, and dials the agents.
    Controller,
    /// A person or a pipeline.
    Operator,
}

impl Role {
    const ALL: [Self; 3] = [Self::Agent, Self::Controller, Self::Operator];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Controller => "controller",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| TlsError::UnknownRole { given: text.to_owned() })
    }
}

/// A peer's role and name, as its certificate says them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// What the peer is.
    pub role: Role,
    /// Its name, unique within the role: 1 to 63 of `a-z`, `0-9` and `-`.
    pub name: String,
}

impl PeerIdentity {
    /// An identity whose name has the required form.
    pub(super) fn new(role: Role, name: &str) -> Result<Self, TlsError> {
        if valid_name(name) {
            Ok(Self { role, name: name.to_owned() })
        } else {
            Err(TlsError::InvalidName { given: name.to_owned() })
        }
    }

    /// Reads the identity of a certificate that was already verified. It must carry exactly one
    /// `plumbline://<role>/<name>` as URI subject alternative name.
    pub fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Self, TlsError> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| TlsError::MalformedCertificate { reason: error.to_string() })?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|error| TlsError::MalformedCertificate { reason: error.to_string() })?;
        let uris: Vec<&str> = names
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _ => None,
            })
            .collect();
        match uris.as_slice() {
            [uri] => Self::from_uri(uri),
            found => Err(TlsError::NoIdentity { found: found.len() }),
        }
    }

    fn from_uri(uri: &str) -> Result<Self, TlsError> {
        let (role, name) = uri
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| TlsError::MalformedIdentity { uri: uri.to_owned() })?;
        Self::new(role.parse()?, name)
    }

    pub(super) fn uri(&self) -> String {
        let Self { role, name } = self;
        format!("{SCHEME}{role}/{name}")
    }

    /// The fixed DNS name this peer's certificate carries when it serves; none for an operator.
    pub(super) fn host_name(&self) -> Option<String> {
        match self.role {
            Role::Agent => Some(agent_host_name(&self.name)),
            Role::Controller => Some(controller_host_name()),
            Role::Operator => None,
        }
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.role, self.name)
    }
}

/// The name that the certificate of the agent called `name` carries, whatever its host's address is.
pub fn agent_host_name(name: &str) -> String {
    format!("{name}.agent.{RESERVED_SUFFIX}")
}

/// The name that every controller's certificate carries.
pub fn controller_host_name() -> String {
    format!("controller.{RESERVED_SUFFIX}")
}

fn valid_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_what_it_prints() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse::<Role>().unwrap(), role);
        }
        assert!(matches!("Agent".parse::<Role>(), Err(TlsError::UnknownRole { .. })));
    }

    #[test]
    fn names_have_one_form() {
        let longest = "a".repeat(NAME_MAX);
        for good in ["a", "web-1", "0", longest.as_str()] {
            assert!(valid_name(good), "{good}");
        }
        let too_long = "a".repeat(NAME_MAX + 1);
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "a_b", "ä", "a b", too_long.as_str()] {
            assert!(!valid_name(bad), "{bad}");
        }
    }

    #[test]
    fn an_identity_reads_back_its_uri() {
        let identity = PeerIdentity::new(Role::Agent, "web-1").unwrap();
        assert_eq!(identity.uri(), "plumbline://agent/web-1");
        assert_eq!(PeerIdentity::from_uri(&identity.uri()).unwrap(), identity);
        for bad in ["plumbline://agent", "plumbline://agent/", "plumbline://root/x", "plumbline://agent/a/b"]
        {
            assert!(PeerIdentity::from_uri(bad).is_err(), "{bad}");
        }
    }
}
