//! Who is let in (P11): `plumb ca`, and what a certificate allows.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use plumbline::proto::v1::agent_service_client::AgentServiceClient;
use plumbline::proto::v1::module_service_client::ModuleServiceClient;
use plumbline::proto::v1::node_service_client::NodeServiceClient;
use plumbline::proto::v1::{GetNodeRequest, ModuleServiceListRequest, NodeServiceListRequest};
use plumbline::tls::{Identity, Timeouts, agent_host_name, connect, controller_host_name};
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::{Authority, Certificate, Fleet, plumb};

#[test]
fn plumb_ca_says_what_is_wrong_and_overwrites_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let ca = folder.path().join("ca");
    let ca = ca.to_str().expect("temporary folders have plain names");
    let to = folder.path().to_str().expect("temporary folders have plain names");
    let issue = |role: &str, name: &str, more: &[&str]| {
        plumb(&[&["ca", "issue", role, name, "--dir", ca, "--write-to", to][..], more].concat())
    };
    issue("agent", "host", &[]).ended(1).says(&["does not exist", "plumb ca init"]);
    plumb(&["ca", "init", "--dir", ca, "--name", "not\nprintable"]).ended(1).says(&["printable characters"]);
    plumb(&["ca", "init", "--dir", ca]).ended(0).says(&["ca.key can issue certificates"]);
    let key = std::fs::read(format!("{ca}/ca.key")).expect("it was made");
    plumb(&["ca", "init", "--dir", ca]).ended(1).says(&["exists: there already is a certificate authority"]);
    assert_eq!(std::fs::read(format!("{ca}/ca.key")).expect("it is there"), key);

    issue("agent", "Not A Name", &[]).ended(1).says(&["\"Not A Name\" is not a name", "a-z, 0-9 and -"]);
    issue("king", "host", &[]).ended(64).says(&["king", "agent, controller or operator"]);
    issue("agent", "host", &["--days", "0"]).ended(64);
    issue("agent", "host", &["--san", "other.agent.plumbline"]).ended(1).says(&["ends in .plumbline"]);
    issue("operator", "olga", &["--san", "example.org"]).ended(1).says(&["takes no host names"]);
    issue("agent", "host", &[]).ended(0).says(&["agent-host.pem", "agent-host.key"]);
    issue("agent", "host", &[]).ended(1).says(&["agent-host", "exists: it was left as it is"]);
    issue("agent", "host", &["--overwrite"]).ended(0);
    for key in [format!("{ca}/ca.key"), format!("{to}/agent-host.key")] {
        let mode = std::fs::metadata(&key).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
}

#[test]
fn a_server_does_not_start_with_a_certificate_of_another_role() {
    let fleet = Fleet::start();
    let (agent, controller) =
        (fleet.authority().issue("agent", "other"), fleet.authority().issue("controller", "other"));
    let start = |server: &str, certificate: &Certificate| {
        let own = [server, "--listen", "127.0.0.1:0", "--data-dir", "wrong"];
        fleet.plumb([&own[..], &certificate.options()].concat()).ended(1)
    };
    let wrong = ["the certificate is for the controller other, not for an agent", "plumb ca issue agent"];
    start("agent", &controller).says(&wrong);
    let wrong = ["the certificate is for the agent other, not for a controller", "plumb ca issue controller"];
    start("controller", &agent).says(&wrong);
    start("agent", fleet.operator()).says(&["the certificate is for the operator olga, not for an agent"]);
    let mixed = Certificate { key: controller.key, ..agent };
    start("agent", &mixed).says(&["does not belong to the certificate"]);
    assert!(!fleet.path("wrong").exists(), "nothing was made for them");
}

async fn channel(address: &str, name: &str, certificate: &Certificate) -> Channel {
    let Certificate { ca, cert, key } = certificate;
    let identity = Identity::load(ca, cert, key).expect("it was issued for this");
    connect(address, name, &identity, &Timeouts::default()).await.expect("it is of this authority")
}

#[tokio::test]
async fn a_role_may_call_only_what_is_meant_for_it() {
    let fleet = Fleet::start();
    let (agent, controller) =
        (fleet.authority().issue("agent", "other"), fleet.authority().issue("controller", "other"));
    for certificate in [&agent, &controller] {
        let channel = channel(&fleet.controller_address(), &controller_host_name(), certificate).await;
        let mut modules = ModuleServiceClient::new(channel.clone());
        let refused = modules.list(ModuleServiceListRequest {}).await.expect_err("it is no operator");
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(refused.message().contains("for the role operator"), "{refused}");
        let refused = NodeServiceClient::new(channel).list(NodeServiceListRequest {}).await;
        assert_eq!(refused.expect_err("it is no operator").code(), Code::PermissionDenied);
    }
    let host = agent_host_name(fleet.node());
    for (certificate, allowed) in [(&agent, false), (&controller, true), (fleet.operator(), true)] {
        let channel = channel(&fleet.agent_address(), &host, certificate).await;
        let answer = AgentServiceClient::new(channel).get_node(GetNodeRequest {}).await;
        let code = answer.err().map(|refused| refused.code());
        assert_eq!(code, (!allowed).then_some(Code::PermissionDenied), "{certificate:?}");
    }
    // As an operator sees it.
    let said = fleet.plumb([&["status"][..], &agent.options()].concat()).ended(1);
    said.says(&["a certificate of the role agent may not call this service"]);
}

#[test]
fn an_operator_of_another_authority_is_refused_and_told_so() {
    let fleet = Fleet::start();
    let other = Authority::init(&fleet.path("other/ca"));
    let stranger = other.issue("operator", "olga");
    // As a whole stranger: it does not trust this controller either.
    let said = fleet.plumb([&["status"][..], &stranger.options()].concat()).ended(1);
    said.says(&[&fleet.controller_address(), "presents a certificate of another authority", "the same CA"]);
    // With our authority's certificate, which is no secret: it trusts the controller, which does not trust it.
    let half = Certificate { ca: fleet.operator().ca.clone(), ..stranger.clone() };
    let said = fleet.plumb([&["status"][..], &half.options()].concat()).ended(1);
    said.says(&["was not issued by the authority in"]);
    fleet.plumb(["status"]).ended(0).says(&["no modules"]);
}

#[test]
fn a_host_is_known_by_its_certificate_not_by_its_address() {
    let fleet = Fleet::of(2);
    let address = fleet.agents[1].server.address();
    let said = fleet.plumb(["node", "add", "host-1", &address]).ended(0);
    said.says(&["agent unreachable", "is not host-1.agent.plumbline", "host-2.agent.plumbline"]);
}

#[test]
fn a_client_without_tls_gets_nothing() {
    let fleet = Fleet::start();
    for address in [fleet.controller_address(), fleet.agent_address()] {
        let hello: [&[u8]; 2] =
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"];
        for hello in hello {
            let mut stream = TcpStream::connect(&address).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
            stream.write_all(hello).expect("it can be written");
            let mut answer = Vec::new();
            // It is closed, with a TLS alert (record type 21) or without a word.
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.len() <= 7 && answer.first().is_none_or(|&first| first == 21), "{answer:?}");
        }
    }
    fleet.plumb(["node", "list"]).ended(0).says(&["ready"]);
}
