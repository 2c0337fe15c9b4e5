"""Another service's integration: a client that knows Plumbline only by what grpcio-tools generated from proto/.

It reads plans and outcomes as typed data and parses no text. What it read goes to standard output as one JSON document,
for the test that started it (python.rs). The generated modules are found by PYTHONPATH.
"""

import argparse
import json
import socket
import ssl
import sys
from pathlib import Path

import grpc
from google.protobuf import duration_pb2
from plumbline.v1 import agent_pb2, agent_pb2_grpc, controller_pb2, controller_pb2_grpc, diff_pb2, spec_pb2

IMAGE = "plumbline/sample:1"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["deploy", "newer", "handshake"])
    for name in ["agent", "controller", "node", "module", "ca", "cert", "key"]:
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    read = {"deploy": deploy, "newer": newer, "handshake": handshake}[options.what](options)
    json.dump(read, sys.stdout, indent=1)


def channel(options, address, server):
    """A channel over mutual TLS. The server is known by the name in its certificate, wherever it listens."""
    credentials = grpc.ssl_channel_credentials(
        root_certificates=Path(options.ca).read_bytes(),
        private_key=Path(options.key).read_bytes(),
        certificate_chain=Path(options.cert).read_bytes(),
    )
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", server)])


def agent_of(options):
    return agent_pb2_grpc.AgentServiceStub(channel(options, options.agent, f"{options.node}.agent.plumbline"))


def modules_of(options):
    return controller_pb2_grpc.ModuleServiceStub(channel(options, options.controller, "controller.plumbline"))


def spec(module, **changed):
    container = spec_pb2.ContainerSpec(
        image=IMAGE,
        command=["hold"],
        dns=["192.0.2.1"],
        environment={"COLOUR": "blue"},
        mem_limit=64 << 20,
        memswap_limit=256 << 20,
    )
    for field, value in changed.items():
        container.ClearField(field)
        container.MergeFrom(spec_pb2.ContainerSpec(**{field: value}))
    return spec_pb2.ModuleSpec(name=module, containers={"web": container})


# deploy: the whole way of one module, from its first plan to a second push that changes nothing.


def deploy(options):
    agent, modules = agent_of(options), modules_of(options)
    first = spec(options.module)
    changed = spec(
        options.module,
        dns=["192.0.2.2"],
        mem_limit=96 << 20,
        cpus=0.5,
        hostname="sky",
        read_only=True,
        stop_grace_period=duration_pb2.Duration(seconds=3),
        environment={"COLOUR": "green"},
    )
    read = {"agent_plan": result(agent.Plan(agent_pb2.PlanRequest(spec=first)).result)}
    read["build"] = build(modules, first)
    plan = node_plan(modules, options)
    read["plan"] = result(plan.result)
    # The push is bound to the plan that was seen.
    read["push"] = push(modules, options, plan_tokens={options.node: plan.plan_token})
    read["build_changed"] = build(modules, changed)
    read["plan_changed"] = result(node_plan(modules, options).result)
    read["push_refused"] = push(modules, options)
    read["push_allowed"] = push(modules, options, recreate=agent_pb2.RECREATE_POLICY_ALLOW)
    read["push_again"] = push(modules, options, recreate=agent_pb2.RECREATE_POLICY_ALLOW)
    return read


def build(modules, module):
    """What was said first, and the revision that was registered."""
    answers = list(modules.Build(controller_pb2.ModuleServiceBuildRequest(specs=[module])))
    events = [answer.WhichOneof("event") for answer in answers]
    assert events == ["announcement", "registered"], events
    [intent] = answers[0].announcement.intents
    return {
        "policy": controller_pb2.UpgradePolicy.Name(intent.upgrade_policy),
        "will_be_sent": intent.will_be_sent,
        "receivers": list(intent.receivers),
        "revision": answers[1].registered.revision,
    }


def node_plan(modules, options):
    request = controller_pb2.ModuleServicePlanRequest(module=options.module, nodes=[options.node])
    [node] = modules.Plan(request).nodes
    assert node.node == options.node and node.WhichOneof("answer") == "plan", node
    return node.plan


def push(modules, options, **more):
    request = controller_pb2.ModuleServicePushRequest(module=options.module, nodes=[options.node], **more)
    events = [answer.node_event for answer in modules.Push(request)]
    assert {(event.node, event.module) for event in events} == {(options.node, options.module)}, events
    kinds = [event.event.WhichOneof("event") for event in events]
    assert kinds[-1] == "result" and set(kinds[:-1]) == {"progress"}, events
    phases = [agent_pb2.Phase.Name(event.event.progress.phase) for event in events[:-1]]
    return {"phases": phases, **result(events[-1].event.result)}


def result(module):
    """The outcome of a module with one container, and the diff of that container."""
    [container] = module.objects
    assert container.kind == diff_pb2.OBJECT_KIND_CONTAINER and container.key == "web", container
    return {
        "outcome": diff_pb2.Outcome.Name(module.outcome),
        "action": diff_pb2.Action.Name(container.action),
        "reason": diff_pb2.RefusalReason.Name(container.reason),
        "engine_id": container.engine_id,
        "residue": len(container.residue),
        "changes": {change.path_text: read_change(change) for change in container.diff.changes},
    }


def read_change(change):
    return {
        "path": [[segment.WhichOneof("step"), segment.field or segment.key] for segment in change.path],
        "before": value(change.before),
        "after": value(change.after),
        "consequence": diff_pb2.Consequence.Name(change.consequence),
        "cause": diff_pb2.Cause.Name(change.cause),
    }


def value(leaf):
    """The kind of a value and the value itself, in this language's own types."""
    kind = leaf.WhichOneof("kind")
    held = getattr(leaf, kind)
    readers = {
        "absent": lambda: None,
        "duration_value": lambda: held.ToTimedelta().total_seconds(),
        "list_value": lambda: list(held.values),
        "secret_value": lambda: held.hash,
        "bytes_value": held.hex if kind == "bytes_value" else None,
    }
    return [kind, readers[kind]() if kind in readers else held]


# newer: a client whose contract has one more field in ContainerSpec, called `novelty`.


def newer(options):
    agent, modules = agent_of(options), modules_of(options)
    module = spec(options.module, novelty="a wish")
    known = spec(options.module)
    maybe = 99  # A value that RecreatePolicy does not have.

    def apply(*requests):
        return lambda: list(agent.Apply(iter(requests)))

    def request(module, operation, **more):
        return agent_pb2.ApplyRequest(operation_id=f"{options.module}-{operation}", spec=module, **more)

    calls = {
        "agent_plan": lambda: agent.Plan(agent_pb2.PlanRequest(spec=module)),
        "agent_apply": apply(request(module, "field")),
        "agent_apply_enum": apply(request(known, "enum", recreate=maybe)),
        "controller_build": lambda: list(modules.Build(controller_pb2.ModuleServiceBuildRequest(specs=[known, module]))),
        "controller_plan": lambda: modules.Plan(
            controller_pb2.ModuleServicePlanRequest(module=options.module, nodes=[options.node], spec=module)
        ),
        "controller_get": lambda: modules.Get(controller_pb2.ModuleServiceGetRequest(module=options.module)),
    }
    return {name: refusal(call) for name, call in calls.items()}


def refusal(call):
    try:
        answer = call()
    except grpc.RpcError as error:
        return {"code": error.code().name, "message": error.details()}
    raise AssertionError(f"it was not refused: {answer}")


# handshake: what becomes of a peer without a certificate, seen without any gRPC in between.


def handshake(options):
    servers = {"agent": (options.agent, f"{options.node}.agent.plumbline")}
    servers["controller"] = (options.controller, "controller.plumbline")
    context = ssl.create_default_context(cafile=options.ca)
    context.set_alpn_protocols(["h2"])
    read = {}
    for role, (address, server) in servers.items():
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            try:
                # In TLS 1.3 the client is done before the server has seen that there is no certificate.
                with context.wrap_socket(plain, server_hostname=server) as secure:
                    read[role] = {"received": secure.recv(1).hex()}
            except ssl.SSLError as error:
                read[role] = {"alert": error.reason}
    return read


if __name__ == "__main__":
    main()
