//! What can go wrong with certificates and secured connections. Each variant is one thing a person can act
//! on: its fields are the facts, its message says the facts and the remedy.
//!
//! Text of the operating system or of the TLS library is kept as text (`reason`), because nobody decides
//! anything by it; what somebody decides by is a variant.

use std::path::PathBuf;
use std::time::Duration;

use super::{PeerIdentity, Role};

/// Why a certificate, a key or a secured connection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A role that does not exist.
    #[error("there is no role {given:?}: use agent, controller or operator")]
    UnknownRole {
        /// What was given.
        given: String,
    },
    /// A name that cannot stand in a certificate.
    #[error("{given:?} is not a name: use 1 to 63 of a-z, 0-9 and -, neither beginning nor ending with -")]
    InvalidName {
        /// What was given.
        given: String,
    },
    /// A name for an authority that is empty, too long or unprintable.
    #[error("{given:?} is not a name for an authority: use 1 to 40 printable characters")]
    InvalidAuthorityName {
        /// What was given.
        given: String,
    },
    /// An additional host name or address that cannot stand in a certificate.
    #[error("{given:?} cannot be put into a certificate: give a DNS name or an IP address without a port")]
    InvalidExtraName {
        /// What was given.
        given: String,
    },
    /// An additional host name that only the authority itself gives.
    #[error("{given:?} ends in .plumbline: such names follow from role and name and cannot be asked for")]
    ReservedExtraName {
        /// What was given.
        given: String,
    },
    /// Additional host names for a role that never serves.
    #[error("a certificate for an {role} takes no host names: only agents and controllers are dialled")]
    NamesForClient {
        /// The role.
        role: Role,
    },
    /// There already is an authority in the folder.
    #[error(
        "{} exists: there already is a certificate authority here. Issue from it with `plumb ca issue`, or \
         choose another folder; replacing it would cut off every peer it has issued to", path.display()
    )]
    AuthorityExists {
        /// The file that is there.
        path: PathBuf,
    },
    /// A file that would have to be overwritten.
    #[error("{} exists: it was left as it is. Ask for overwriting if that is meant", path.display())]
    FileExists {
        /// The file that is there.
        path: PathBuf,
    },
    /// The `ca.pem` in the destination folder is not the one that issued.
    #[error(
        "{} is the certificate of another authority: write to another folder, or remove it if it is stale",
        path.display()
    )]
    OtherAuthorityBeside {
        /// The file that is there.
        path: PathBuf,
    },
    /// A file that is not there.
    #[error(
        "{} does not exist: make it with `plumb ca init` (the CA) or `plumb ca issue` (certificates and keys), \
         or name the right file", path.display()
    )]
    Missing {
        /// The file that is not there.
        path: PathBuf,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {reason}. Check its owner and mode", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file or folder that cannot be written.
    #[error("cannot write {}: {reason}. Check the folder's owner, mode and free space", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file that holds something else.
    #[error("{} holds no {expected} in PEM form: check that the right file was named", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What it should hold: "certificate" or "private key".
        expected: &'static str,
    },
    /// A private key of a kind or strength that is not supported.
    #[error("{} cannot be used as a private key: {reason}. Issue a new one with `plumb ca issue`", path.display())]
    UnusableKey {
        /// The file.
        path: PathBuf,
        /// What the TLS library said.
        reason: String,
    },
    /// Certificate and key do not belong together.
    #[error(
        "the key {} does not belong to the certificate {}: name files of one issue, or issue anew with \
         `plumb ca issue`", key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// A certificate that is over.
    #[error("{} expired on {not_after}: issue a new one, and check this machine's clock", path.display())]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Its last moment.
        not_after: String,
    },
    /// A certificate that has not begun.
    #[error("{} is valid only from {not_before}: check this machine's clock", path.display())]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// Its first moment.
        not_before: String,
    },
    /// A certificate that this authority did not sign.
    #[error(
        "{} was not issued by the authority in {}: name the ca.pem that lay beside it when it was issued",
        certificate.display(), ca.display()
    )]
    IssuedByAnother {
        /// The certificate's file.
        certificate: PathBuf,
        /// The authority's file.
        ca: PathBuf,
    },
    /// A certificate that the TLS library does not accept for another reason.
    #[error("{} cannot be used: {reason}. Issue a new one with `plumb ca issue`", path.display())]
    UnusableCertificate {
        /// The certificate's file.
        path: PathBuf,
        /// What the TLS library said.
        reason: String,
    },
    /// Bytes that are no certificate.
    #[error("this is not an X.509 certificate: {reason}")]
    MalformedCertificate {
        /// What the parser said.
        reason: String,
    },
    /// A certificate that does not say who its holder is.
    #[error(
        "the certificate has {found} URIs of the form plumbline://<role>/<name> where exactly one is needed: \
         issue it with `plumb ca issue`"
    )]
    NoIdentity {
        /// How many there are.
        found: usize,
    },
    /// A certificate whose identity cannot be read.
    #[error("{uri:?} in the certificate is not plumbline://<role>/<name>: issue it with `plumb ca issue`")]
    MalformedIdentity {
        /// The URI.
        uri: String,
    },
    /// The TLS or certificate library refused what it was given by this program.
    #[error("cannot set up TLS: {reason}")]
    Setup {
        /// What the library said.
        reason: String,
    },
    /// An address that is none.
    #[error("{address:?} is not an address: use host:port or [IPv6]:port")]
    InvalidAddress {
        /// What was given.
        address: String,
    },
    /// The address's host name is unknown.
    #[error("cannot find {address}: {reason}. Check the host name and this machine's DNS")]
    Unresolved {
        /// What was dialled.
        address: String,
        /// What the resolver said.
        reason: String,
    },
    /// Nothing listens at the address.
    #[error(
        "{address} refuses connections: nothing listens there. Check that the program is running on that \
         host, and the port"
    )]
    ConnectionRefused {
        /// What was dialled.
        address: String,
    },
    /// Nobody answered in time.
    #[error(
        "{address} did not answer within {} s: check that the host is up, the address, and firewalls between",
        after.as_secs_f32()
    )]
    ConnectTimeout {
        /// What was dialled.
        address: String,
        /// How long was waited.
        after: Duration,
    },
    /// The connection failed for another reason.
    #[error("cannot reach {address}: {reason}. Check the network between this machine and that host")]
    Unreachable {
        /// What was dialled.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Connected, but the TLS or HTTP/2 greeting did not finish in time.
    #[error(
        "{address} accepted the connection but did not finish the handshake within {} s: it is overloaded or \
         hung, or it is no Plumbline agent or controller", after.as_secs_f32()
    )]
    HandshakeTimeout {
        /// What was dialled.
        address: String,
        /// How long was waited.
        after: Duration,
    },
    /// The server answered something that is not TLS.
    #[error("what listens at {address} does not speak TLS: check the port")]
    NotTls {
        /// What was dialled.
        address: String,
    },
    /// The server's certificate comes from another authority.
    #[error(
        "{address} presents a certificate of another authority (ours is installation {installation}): check \
         the address, and that both sides were issued by the same CA"
    )]
    ServerOfAnotherAuthority {
        /// What was dialled.
        address: String,
        /// Our own installation.
        installation: String,
    },
    /// The server is somebody else.
    #[error(
        "{address} is not {expected}: its certificate is for {}. Check the address of the node",
        if presented.is_empty() { "nobody that can be dialled".to_owned() } else { presented.join(", ") }
    )]
    ServerNameMismatch {
        /// What was dialled.
        address: String,
        /// The name that was asked for.
        expected: String,
        /// The names that its certificate carries.
        presented: Vec<String>,
    },
    /// The server's certificate is over, or has not begun.
    #[error(
        "the certificate that {address} presents is expired or not yet valid: issue a new one for it, and check \
         the clocks of both machines"
    )]
    ServerCertificateExpired {
        /// What was dialled.
        address: String,
    },
    /// The server did not accept our certificate.
    #[error(
        "{address} refused our certificate ({own}): it said {alert}. Check that it was issued by that side's \
         CA, and is not expired"
    )]
    OurCertificateRefused {
        /// What was dialled.
        address: String,
        /// Who we said we are.
        own: PeerIdentity,
        /// The TLS alert.
        alert: String,
    },
    /// The server closed the connection before it said anything.
    #[error(
        "{address} closed the connection before it said anything: most often it refused our certificate \
         ({own}), or it is stopping. Its log has the reason"
    )]
    ClosedEarly {
        /// What was dialled.
        address: String,
        /// Who we said we are.
        own: PeerIdentity,
    },
    /// The handshake failed for another reason.
    #[error(
        "the TLS handshake with {address} failed: {reason}. Check that a Plumbline agent or controller of a matching release listens there"
    )]
    HandshakeFailed {
        /// What was dialled.
        address: String,
        /// What the TLS library said.
        reason: String,
    },
}
