//! Every server says what it serves, to clients of either reflection protocol. This is a client of v1; the real grpcurl
//! (grpcurl.rs) speaks v1alpha.

use std::collections::BTreeSet;

use plumbline::tls::{Identity, Timeouts, agent_host_name, connect, controller_host_name};
use tonic::transport::Channel;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::harness::Fleet;

#[tokio::test]
async fn a_client_of_reflection_v1_finds_what_each_server_serves() {
    let fleet = Fleet::start();
    let operator = fleet.operator();
    let identity = Identity::load(&operator.ca, &operator.cert, &operator.key).expect("it was issued");
    for (address, name, own) in [
        (fleet.agent_address(), agent_host_name(fleet.node()), &["plumbline.v1.AgentService"][..]),
        (
            fleet.controller_address(),
            controller_host_name(),
            &["plumbline.v1.ModuleService", "plumbline.v1.NodeService"][..],
        ),
    ] {
        let channel = connect(&address, &name, &identity, &Timeouts::default()).await.expect("it answers");
        let mut client = ServerReflectionClient::new(channel);
        let MessageResponse::ListServicesResponse(listed) =
            ask(&mut client, MessageRequest::ListServices(String::new())).await
        else {
            panic!("another answer than was asked for");
        };
        let listed: BTreeSet<String> = listed.service.into_iter().map(|service| service.name).collect();
        let beside = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(listed, beside.iter().chain(own).map(|name| (*name).to_owned()).collect());
        for service in listed {
            let answer = ask(&mut client, MessageRequest::FileContainingSymbol(service.clone())).await;
            assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{service}: {answer:?}");
        }
    }
}

async fn ask(client: &mut ServerReflectionClient<Channel>, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.expect("it is served");
    let answer = answers.into_inner().message().await.expect("it is answered").expect("there is an answer");
    answer.message_response.expect("the answer says something")
}
