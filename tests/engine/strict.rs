//! What a newer client says and this agent does not know is refused, before anything is touched.

use bytes::{BufMut as _, Bytes};
use plumbline::proto::v1::{ApplyRequest, PlanRequest};
use prost::Message as _;
use serde_json::json;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use crate::served::Served;

/// Sends the bytes that it is given, and reads no answer.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        bytes::Buf::advance(buffer, bytes::Buf::remaining(buffer));
        Ok(Some(()))
    }
}

/// How the agent answers these requests of one stream: what comes after the answers that it gives.
async fn answer(host: &Served, method: &str, requests: Vec<Vec<u8>>) -> Status {
    let mut grpc = tonic::client::Grpc::new(host.channel.clone());
    grpc.ready().await.expect("the connection stands");
    let path = format!("/plumbline.v1.AgentService/{method}").parse().expect("a path");
    let requests = tokio_stream::iter(requests.into_iter().map(Bytes::from).collect::<Vec<_>>());
    let answers = match grpc.streaming(Request::new(requests), path, Raw).await {
        Ok(answers) => answers,
        Err(status) => return status,
    };
    let mut answers = answers.into_inner();
    loop {
        match answers.message().await {
            Ok(Some(())) => {}
            Ok(None) => return Status::ok(""),
            Err(status) => return status,
        }
    }
}

/// A field of this number with a short text, to be appended to an encoded message.
fn field(number: u32, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::string::encode(number, &text.to_owned(), &mut bytes);
    bytes
}

fn number(number: u32, value: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::int32::encode(number, &value, &mut bytes);
    bytes
}

/// Asks for an apply and a plan that have this appended to the container, the module or the request. Each is refused with
/// these words, and no container is made.
async fn refused(test: &str, in_container: &[u8], in_module: &[u8], in_request: &[u8], words: &[&str]) {
    let host = Served::new(test).await;
    let mut module = host.site.module(json!({}));
    let container = host.site.holding(&json!({})).containers.remove("c").expect("it has one");
    let container = [container.encode_to_vec(), in_container.to_vec()].concat();
    module.containers.clear();
    let mut entry = field(1, "c");
    prost::encoding::bytes::encode(2, &container, &mut entry);
    let mut spec = module.encode_to_vec();
    prost::encoding::bytes::encode(2, &entry, &mut spec);
    spec.extend(in_module);

    let mut apply = ApplyRequest { operation_id: "1".to_owned(), ..ApplyRequest::default() }.encode_to_vec();
    prost::encoding::bytes::encode(2, &spec, &mut apply);
    apply.extend(in_request);
    let mut plan = PlanRequest::default().encode_to_vec();
    prost::encoding::bytes::encode(1, &spec, &mut plan);
    plan.extend(in_request);
    for (method, request) in [("Apply", apply), ("Plan", plan)] {
        let status = answer(&host, method, vec![request]).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{method}: {status:?}");
        for word in words {
            assert!(status.message().contains(word), "{method}: without `{word}`: {}", status.message());
        }
    }
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.containers(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_a_container_that_is_not_known_is_refused_by_its_number() {
    let words = ["9999", "plumbline.v1.ContainerSpec", "containers[c]", "nothing was touched"];
    refused("sfield", &field(9999, "new"), &[], &[], &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_deep_inside_is_refused_with_its_place() {
    let mut restart = Vec::new();
    prost::encoding::bytes::encode(50, &field(77, "new"), &mut restart);
    let words = ["77", "plumbline.v1.RestartPolicy", "containers[c].restart"];
    refused("sdeep", &restart, &[], &[], &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_the_module_or_of_the_request_is_refused() {
    refused("smodule", &[], &field(4711, "new"), &[], &["4711", "plumbline.v1.ModuleSpec"]).await;
    refused("srequest", &[], &[], &field(4712, "new"), &["4712"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enum_value_that_is_not_known_is_refused() {
    let host = Served::new("senum").await;
    let spec = host.site.holding(&json!({}));
    let mut apply = host.request("1", &spec, false).encode_to_vec();
    apply.extend(number(4, 42));
    let mut plan = PlanRequest { spec: Some(spec), ..PlanRequest::default() }.encode_to_vec();
    plan.extend(number(3, 42));
    for (method, request) in [("Apply", apply), ("Plan", plan)] {
        let status = answer(&host, method, vec![request]).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{method}: {status:?}");
        assert!(status.message().contains("`recreate` has the value 42"), "{}", status.message());
    }
    assert_eq!(host.engine.take_mutations(), [""; 0]);
}

/// The stream ends at the request that is not understood; what was accepted before it is done all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_understood_does_not_stop_the_one_before_it() {
    let host = Served::new("sstream").await;
    let spec = host.site.holding(&json!({}));
    let good = host.request("1", &spec, false);
    let bad = [host.request("2", &spec, false).encode_to_vec(), field(9999, "new")].concat();
    let status = answer(&host, "Apply", vec![good.encode_to_vec(), bad]).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    host.events(good).await;
    assert_eq!(host.site.inspect("c").await["State"]["Running"], true);
    host.settled(&spec).await;
}
