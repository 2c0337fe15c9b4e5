//! The authority, the files it writes, and what loading them refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn load(paths: &IssuedPaths) -> Result<Identity, TlsError> {
    Identity::load(&paths.ca, &paths.certificate, &paths.key)
}

#[test]
fn an_authority_is_never_overwritten() {
    let world = World::new();
    let before = (fs::read(world.path().join("ca.pem")), fs::read(world.path().join("ca.key")));
    assert!(matches!(Authority::init(world.path(), "again"), Err(TlsError::AuthorityExists { .. })));
    fs::remove_file(world.path().join("ca.pem")).unwrap();
    let error = Authority::init(world.path(), "again").unwrap_err();
    assert_eq!(error, TlsError::AuthorityExists { path: world.path().join("ca.key") });
    assert_eq!(fs::read(world.path().join("ca.key")).unwrap(), before.1.unwrap());
    assert!(before.0.is_ok());
}

#[test]
fn of_many_who_make_an_authority_at_once_one_succeeds() {
    let folder = TempDir::new().unwrap();
    let made: Vec<bool> = std::thread::scope(|scope| {
        let racers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Authority::init(folder.path(), "race").is_ok())).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    Authority::open(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "drafts were left");
}

#[test]
fn keys_are_for_their_owner_only() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("a/ca");
    let authority = Authority::init(&inner, "test").unwrap();
    let issued = authority.issue(Role::Agent, "web", &[], DAY).unwrap();
    let paths = issued.write(&inner.join("out"), false).unwrap();
    assert_eq!(mode(&inner), 0o700);
    assert_eq!(mode(&inner.join("ca.key")), 0o600);
    assert_eq!(mode(&inner.join("out")), 0o700);
    assert_eq!(mode(&paths.key), 0o600);
    issued.write(&inner.join("out"), true).unwrap();
    assert_eq!(mode(&paths.key), 0o600);
    let printed = format!("{issued:?} {authority:?} {:?}", load(&paths).unwrap());
    assert!(!printed.contains("PRIVATE"), "{printed}");
}

#[test]
fn an_opened_authority_is_the_same_installation() {
    let world = World::new();
    let opened = Authority::open(world.path()).unwrap();
    let identity = world.agent();
    assert_eq!(opened.installation(), world.authority.installation());
    assert_eq!(identity.installation(), opened.installation());
    assert_eq!(installation_of(identity.ca_pem()).unwrap(), opened.installation());
    assert_eq!(opened.installation().len(), 16);
    assert_ne!(World::new().authority.installation(), opened.installation());
    let issued = opened.issue(Role::Operator, "ann", &[], DAY).unwrap();
    let peer = load(&issued.write(world.path(), false).unwrap()).unwrap().peer().clone();
    assert_eq!(peer, PeerIdentity { role: Role::Operator, name: "ann".to_owned() });
}

#[test]
fn only_fitting_names_are_issued() {
    let world = World::new();
    let issue = |role, name: &str, extra: &str| {
        let extra: Vec<String> = extra.split_whitespace().map(str::to_owned).collect();
        world.authority.issue(role, name, &extra, DAY)
    };
    issue(Role::Agent, "web", "web.example.org 10.0.0.1 ::1 localhost").unwrap();
    assert!(matches!(issue(Role::Agent, "Web", ""), Err(TlsError::InvalidName { .. })));
    assert!(matches!(issue(Role::Operator, "ann", "a.example"), Err(TlsError::NamesForClient { .. })));
    for reserved in ["controller.plumbline", "controller.plumbline.", "db.agent.PLUMBLINE"] {
        let error = issue(Role::Agent, "web", reserved).unwrap_err();
        assert!(matches!(error, TlsError::ReservedExtraName { .. }), "{reserved}: {error}");
    }
    for bad in ["a:443", "http://a", "-a.b", "*.example.org", ".", "a..b", "é.example"] {
        let error = issue(Role::Agent, "web", bad).unwrap_err();
        assert!(matches!(error, TlsError::InvalidExtraName { .. }), "{bad}: {error}");
    }
}

#[test]
fn a_certificate_never_outlives_its_authority() {
    let world = World::new();
    let issued = world.authority.issue(Role::Agent, "web", &[], Duration::MAX).unwrap();
    assert!(issued.not_after <= OffsetDateTime::now_utc() + time::Duration::days(3653));
    load(&issued.write(world.path(), false).unwrap()).unwrap();
}

#[test]
fn issued_files_are_replaced_only_when_asked() {
    let (world, other) = (World::new(), World::new());
    let issue = |world: &World| world.authority.issue(Role::Agent, "web", &[], DAY).unwrap();
    let paths = issue(&world).write(world.path(), false).unwrap();
    let before = fs::read(&paths.key).unwrap();
    let second = issue(&world);
    assert!(matches!(second.write(world.path(), false), Err(TlsError::FileExists { .. })));
    assert_eq!(fs::read(&paths.key).unwrap(), before);
    second.write(world.path(), true).unwrap();
    assert_ne!(fs::read(&paths.key).unwrap(), before);
    load(&paths).unwrap();
    let error = issue(&other).write(world.path(), true).unwrap_err();
    assert!(matches!(error, TlsError::OtherAuthorityBeside { .. }));
    load(&paths).unwrap();
}

#[test]
fn loading_names_the_file_and_what_is_wrong_with_it() {
    let (world, other) = (World::new(), World::new());
    let good =
        world.authority.issue(Role::Agent, "web", &[], DAY).unwrap().write(world.path(), false).unwrap();
    let second =
        world.authority.issue(Role::Agent, "db", &[], DAY).unwrap().write(world.path(), false).unwrap();
    let foreign =
        other.authority.issue(Role::Agent, "web", &[], DAY).unwrap().write(other.path(), false).unwrap();
    let expired = world.expired().write(world.path(), false).unwrap();
    let absent = world.path().join("absent.pem");
    let text = world.path().join("text.pem");
    fs::write(&text, "hello").unwrap();

    let attempt = |ca: &Path, certificate: &Path, key: &Path| {
        Identity::load(ca, certificate, key).expect_err("it loaded")
    };
    assert_eq!(attempt(&absent, &good.certificate, &good.key), TlsError::Missing { path: absent.clone() });
    assert_eq!(attempt(&good.ca, &absent, &good.key), TlsError::Missing { path: absent.clone() });
    assert_eq!(
        attempt(&good.ca, &text, &good.key),
        TlsError::NotPem { path: text.clone(), expected: "certificate" }
    );
    assert_eq!(
        attempt(&good.ca, &good.certificate, &good.certificate),
        TlsError::NotPem { path: good.certificate.clone(), expected: "private key" }
    );
    assert_eq!(
        attempt(&good.ca, &good.certificate, &second.key),
        TlsError::KeyMismatch { certificate: good.certificate.clone(), key: second.key.clone() }
    );
    assert_eq!(
        attempt(&foreign.ca, &good.certificate, &good.key),
        TlsError::IssuedByAnother { certificate: good.certificate.clone(), ca: foreign.ca.clone() }
    );
    let error = attempt(&expired.ca, &expired.certificate, &expired.key);
    let year = OffsetDateTime::now_utc().year().to_string();
    assert!(matches!(&error, TlsError::Expired { path, .. } if *path == expired.certificate), "{error}");
    assert!(error.to_string().contains(&year), "{error}");
}

#[test]
fn an_authority_whose_key_was_exchanged_does_not_open() {
    let (world, other) = (World::new(), World::new());
    fs::copy(other.path().join("ca.key"), world.path().join("ca.key")).unwrap();
    assert!(matches!(Authority::open(world.path()), Err(TlsError::KeyMismatch { .. })));
}

#[test]
fn a_certificate_without_exactly_one_identity_is_nobody() {
    let uris: [&[&str]; 3] = [&[], &["https://a"], &["plumbline://agent/a", "plumbline://operator/a"]];
    for uris in uris {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names =
            uris.iter().map(|uri| rcgen::SanType::URI((*uri).try_into().unwrap())).collect();
        let certificate = params.self_signed(&key).unwrap();
        let error = PeerIdentity::from_certificate(certificate.der()).unwrap_err();
        assert!(matches!(error, TlsError::NoIdentity { .. }), "{uris:?}: {error}");
    }
}
