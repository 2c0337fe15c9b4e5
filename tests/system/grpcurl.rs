//! The real `grpcurl`, with a client certificate and nothing else: it learns the contract from the servers by
//! reflection, and does with it what an operator does.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Authority, Certificate, Fleet, identity};
use crate::tools::{Said, containers_of, inspect, run, tool, workspace};

#[test]
fn it_lists_what_each_server_serves_and_describes_it() {
    let fleet = Fleet::start();
    let beside = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    for (server, own) in [
        (agent(&fleet), &["plumbline.v1.AgentService"][..]),
        (controller(&fleet), &["plumbline.v1.ModuleService", "plumbline.v1.NodeService"][..]),
    ] {
        let listed = server.ask(&[], &["list"], "").text();
        let listed: Vec<&str> = listed.lines().collect();
        assert_eq!(listed, [&beside[..], own].concat());
        for service in listed {
            let text = server.ask(&[], &["describe", service], "").text();
            assert!(text.starts_with(&format!("{service} is a service:")), "{text}");
        }
    }
    let methods = agent(&fleet).ask(&[], &["describe", "plumbline.v1.AgentService"], "").text();
    let apply =
        "rpc Apply ( stream .plumbline.v1.ApplyRequest ) returns ( stream .plumbline.v1.ApplyResponse );";
    assert!(methods.contains(apply), "{methods}");
    assert!(methods.contains("// What an apply would do, without a mutating engine call."), "{methods}");

    // The catalogue of fields travels with the contract: comment, field and rule.
    let container = controller(&fleet).ask(&[], &["describe", "plumbline.v1.ContainerSpec"], "").text();
    let mem_limit = "  // Memory limit; at least 6 MiB.\n  optional int64 mem_limit = 30 [(.plumbline.v1.rule) = \
                     { engine_path:\"HostConfig.Memory\" means:MEANS_UPDATE unit:UNIT_BYTES }];";
    assert!(container.contains(mem_limit), "{container}");
}

#[test]
fn it_plans_and_applies_at_the_agent() {
    let fleet = Fleet::start();
    let (module, other) = (fleet.module("grpcurl"), fleet.module("grpcurl-other"));
    let agent = agent(&fleet);
    let apply = |request: &Value| {
        let events = agent.call("plumbline.v1.AgentService/Apply", request).answers();
        assert_eq!(events[0]["progress"]["phase"], "PHASE_ACCEPTED", "{events:?}");
        events.last().expect("the first is there")["result"].clone()
    };

    let spec = declared(&module, "192.0.2.1");
    let plan = agent.call("plumbline.v1.AgentService/Plan", &json!({"spec": spec})).answer();
    assert_eq!(plan["result"]["action"], "ACTION_CREATED", "{plan}");
    assert_eq!(change(&plan["result"], "dns")["after"], json!({"listValue": {"values": ["192.0.2.1"]}}));
    assert_eq!(fleet.engine().mutations(), Vec::<String>::new(), "a plan touches nothing");

    let first = json!({"operationId": format!("{module}-1"), "spec": spec, "planToken": plan["planToken"]});
    let created = apply(&first);
    assert_eq!(created["outcome"], "OUTCOME_APPLIED", "{created}");
    let web = format!("{module}-web");
    let container = inspect(&web);
    assert_eq!(container["Id"], created["objects"][0]["engineId"]);
    assert_eq!(container["State"]["Running"], true);
    assert_eq!(container["HostConfig"]["Dns"], json!(["192.0.2.1"]));
    let before = identity(&web);

    // The same operation again: the same answer, and nothing done twice.
    fleet.engine().forget();
    assert_eq!(apply(&first), created);

    let mut second = json!({"operationId": format!("{module}-2"), "spec": declared(&module, "192.0.2.2")});
    let refused = apply(&second);
    assert_eq!(refused["outcome"], "OUTCOME_REFUSED_NEEDS_RECREATION", "{refused}");
    assert_eq!(refused["objects"][0]["reason"], "REFUSAL_REASON_NEEDS_RECREATION");
    let dns = change(&refused, "dns");
    assert_eq!(dns["before"], json!({"listValue": {"values": ["192.0.2.1"]}}));
    assert_eq!(dns["after"], json!({"listValue": {"values": ["192.0.2.2"]}}));
    assert_eq!(dns["consequence"], "CONSEQUENCE_RECREATE");
    assert_eq!(fleet.engine().mutations(), Vec::<String>::new(), "refused: not touched");
    assert_eq!(identity(&web), before);

    // Two modules over one stream, both ways at once.
    second["operationId"] = json!(format!("{module}-3"));
    second["recreate"] = json!("RECREATE_POLICY_ALLOW");
    let third = json!({"operationId": format!("{other}-1"), "spec": declared(&other, "192.0.2.1")});
    let both = format!("{second}\n{third}");
    let events = agent.ask(&["-d", "@"], &["plumbline.v1.AgentService/Apply"], &both).answers();
    for (module, operation, outcome) in
        [(&module, &second, "OUTCOME_RECREATED"), (&other, &third, "OUTCOME_APPLIED")]
    {
        let mut own = events.iter().filter(|event| event["operationId"] == operation["operationId"]);
        let result = &own.next_back().expect("it was answered")["result"];
        assert_eq!(result["outcome"], outcome, "{events:?}");
        assert_eq!(inspect(&format!("{module}-web"))["Id"], result["objects"][0]["engineId"]);
    }
    assert_eq!(inspect(&web)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
}

#[test]
fn what_it_sends_for_one_module_is_done_in_the_order_it_was_sent() {
    let fleet = Fleet::start();
    let module = fleet.module("grpcurl-order");
    let sent: Vec<String> = (0..60).map(|number| format!("{module}-{number}")).collect();
    let request = |id: &String| json!({"operationId": id, "spec": {"name": module}}).to_string();
    let requests: String = sent.iter().map(request).collect();
    let events = agent(&fleet).ask(&["-d", "@"], &["plumbline.v1.AgentService/Apply"], &requests).answers();
    let planned = events.iter().filter(|event| event["progress"]["phase"] == "PHASE_PLANNED");
    let mut done: Vec<(&str, &str)> = planned
        .filter_map(|event| {
            Some((event["progress"]["time"].as_str()?.trim_end_matches('Z'), event["operationId"].as_str()?))
        })
        .collect();
    done.sort_unstable();
    assert_eq!(done.iter().map(|(_, id)| *id).collect::<Vec<_>>(), sent);
}

#[test]
fn it_builds_and_pushes_at_the_controller() {
    let fleet = Fleet::start();
    let module = fleet.module("grpcurl-push");
    let controller = controller(&fleet);

    let specs = json!({"specs": [declared(&module, "192.0.2.1")]});
    let built = controller.call("plumbline.v1.ModuleService/Build", &specs).answers();
    assert_eq!(
        built,
        [
            json!({"announcement": {"intents": [{"module": module, "upgradePolicy": "UPGRADE_POLICY_RECORD"}]}}),
            json!({"registered": {"module": module, "revision": "1"}}),
        ]
    );
    assert_eq!(containers_of(&module), Vec::<String>::new(), "it is only registered");

    let push = json!({"module": module, "nodes": [fleet.node()]});
    let pushed = controller.call("plumbline.v1.ModuleService/Push", &push).answers();
    let last = &pushed.last().expect("it was answered")["nodeEvent"];
    assert_eq!((&last["node"], &last["module"]), (&json!(fleet.node()), &json!(module)));
    assert_eq!(last["event"]["result"]["outcome"], "OUTCOME_APPLIED", "{pushed:?}");
    let container = inspect(&format!("{module}-web"));
    assert_eq!(container["Id"], last["event"]["result"]["objects"][0]["engineId"]);
    assert_eq!(container["State"]["Running"], true);
}

#[test]
fn health_is_served_beside_every_service() {
    let fleet = Fleet::start();
    for (server, services) in [
        (agent(&fleet), &["", "plumbline.v1.AgentService"][..]),
        (controller(&fleet), &["", "plumbline.v1.ModuleService", "plumbline.v1.NodeService"][..]),
    ] {
        for service in services {
            let answer = server.call("grpc.health.v1.Health/Check", &json!({"service": service})).answer();
            assert_eq!(answer, json!({"status": "SERVING"}), "{service}");
        }
        let said = server.call("grpc.health.v1.Health/Check", &json!({"service": "plumbline.v1.NoService"}));
        assert!(!said.ok && said.stderr.contains("Code: NotFound"), "{said:?}");
    }
}

#[test]
fn an_error_comes_with_details_that_grpcurl_can_print() {
    let fleet = Fleet::start();
    let nobody = json!({"container": fleet.module("nobody")});
    let said = agent(&fleet).call("plumbline.v1.AgentService/Observe", &nobody);
    assert!(!said.ok && said.stderr.contains("Code: NotFound"), "{said:?}");
    assert!(said.stderr.contains("\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\""), "{said:?}");
    assert!(said.stderr.contains("\"reason\":\"NO_SUCH_CONTAINER\""), "{said:?}");
}

#[test]
fn what_the_contract_does_not_have_grpcurl_does_not_send() {
    let fleet = Fleet::start();
    let module = fleet.module("grpcurl-unknown");
    let (mut field, mut value) = (json!({"spec": declared(&module, "192.0.2.1")}), json!({}));
    value["spec"] = field["spec"].clone();
    value["recreate"] = json!("RECREATE_POLICY_MAYBE");
    field["spec"]["containers"]["web"]["novelty"] = json!("new");
    for (request, complaint) in [
        (field, "message type plumbline.v1.ContainerSpec has no known field named novelty"),
        (value, "enum \"plumbline.v1.RecreatePolicy\" does not have value named \"RECREATE_POLICY_MAYBE\""),
    ] {
        for method in ["plumbline.v1.AgentService/Plan", "plumbline.v1.AgentService/Apply"] {
            let mut request = request.clone();
            if method.ends_with("Apply") {
                request["operationId"] = json!(format!("{module}-1"));
            }
            let said = agent(&fleet).call(method, &request);
            assert!(!said.ok && said.stderr.contains(complaint), "{said:?}");
        }
    }
    assert_eq!(fleet.engine().mutations(), Vec::<String>::new());
}

#[test]
fn without_a_certificate_of_this_authority_nothing_is_answered() {
    let (fleet, stranger) = (Fleet::start(), tempfile::tempdir().expect("a temporary folder can be made"));
    let foreign = Authority::init(&stranger.path().join("authority")).issue("operator", "mallory");
    let proto = workspace().join("proto").display().to_string();
    // With the contract at hand it needs no reflection: the call itself is refused.
    let contract =
        ["-import-path", &proto, "-proto", "plumbline/v1/agent.proto", "-proto", "plumbline/v1/node.proto"];
    for (server, method, log) in [
        (agent(&fleet), "plumbline.v1.AgentService/GetNode", &fleet.agents[0].server),
        (controller(&fleet), "plumbline.v1.NodeService/List", &fleet.controller),
    ] {
        // Each tries again until its time is up, so they try side by side.
        let knocks = std::thread::scope(|scope| {
            [
                scope.spawn(|| server.knock(&mut server.grpcurl(None), &contract, method)),
                scope.spawn(|| server.knock(&mut server.grpcurl(Some(&foreign)), &contract, method)),
                scope.spawn(|| server.knock(&mut Command::new(tool("grpcurl")), &["-plaintext"], method)),
            ]
            .map(|knock| knock.join().expect("grpcurl was run"))
        });
        for (peer, said) in
            ["without a certificate", "of another authority", "in plain text"].iter().zip(knocks)
        {
            assert!(!said.ok && said.stdout.is_empty(), "{method} {peer}: {said:?}");
            assert!(said.stderr.contains("Failed to dial target host"), "{method} {peer}: {said:?}");
        }
        for reason in ["peer sent no certificates", "invalid peer certificate"] {
            let log = log.log();
            assert!(log.contains(reason), "{method}: no {reason:?}: {log}");
        }
        // The same call with a certificate: it was the certificate that was missing.
        assert!(server.ask(&contract, &[method], "").ok, "{method}");
    }
}

/// A module of one container.
fn declared(module: &str, dns: &str) -> Value {
    json!({
        "name": module,
        "containers": {"web": {"image": "plumbline/sample:1", "command": ["hold"], "dns": [dns]}},
    })
}

/// The change of one field of the module's container.
fn change<'r>(result: &'r Value, field: &str) -> &'r Value {
    let changes = result["objects"][0]["diff"]["changes"].as_array().expect("there are changes");
    let path = format!("containers.web.{field}");
    changes.iter().find(|change| change["pathText"] == path.as_str()).expect("the field differs")
}

fn agent(fleet: &Fleet) -> Server<'_> {
    Server { fleet, address: fleet.agent_address(), name: format!("{}.agent.plumbline", fleet.node()) }
}

fn controller(fleet: &Fleet) -> Server<'_> {
    Server { fleet, address: fleet.controller_address(), name: "controller.plumbline".to_owned() }
}

/// A server as grpcurl sees it: its address, and its name as in its certificate.
struct Server<'f> {
    fleet: &'f Fleet,
    address: String,
    name: String,
}

impl Server<'_> {
    /// grpcurl with the operator's certificate.
    fn ask(&self, options: &[&str], what: &[&str], input: &str) -> Said {
        let mut grpcurl = self.grpcurl(Some(self.fleet.operator()));
        run(grpcurl.args(options).arg(&self.address).args(what), input)
    }

    /// A call with JSON on standard input.
    fn call(&self, method: &str, request: &Value) -> Said {
        self.ask(&["-d", "@"], &[method], &request.to_string())
    }

    /// A call that must not get through.
    fn knock(&self, grpcurl: &mut Command, options: &[&str], method: &str) -> Said {
        run(grpcurl.args(["-connect-timeout", "2"]).args(options).arg(&self.address).arg(method), "")
    }

    /// grpcurl with this certificate, or none.
    fn grpcurl(&self, certificate: Option<&Certificate>) -> Command {
        let mut grpcurl = Command::new(tool("grpcurl"));
        grpcurl.arg("-cacert").arg(&self.fleet.operator().ca).args(["-servername", &self.name]);
        if let Some(Certificate { cert, key, .. }) = certificate {
            grpcurl.arg("-cert").arg(cert).arg("-key").arg(key);
        }
        grpcurl
    }
}

impl Said {
    fn text(self) -> String {
        assert!(self.ok, "grpcurl failed: {}", self.stderr);
        self.stdout
    }

    fn answers(self) -> Vec<Value> {
        let text = self.text();
        let answers = serde_json::Deserializer::from_str(&text).into_iter();
        answers.map(|answer| answer.unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
    }

    fn answer(self) -> Value {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }
}
