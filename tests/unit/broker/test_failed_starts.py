"""A start that fails at any step gives everything back: threads, listeners, files, locks, sockets."""

import asyncio
import contextlib
import inspect
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from bowstring.engine.broker import broker as broker_module
from bowstring.engine.broker import controller_node
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.committed_configs import CommittedConfigs
from bowstring.engine.broker.connection_limits import ConnectionLimits
from bowstring.engine.broker.controller_node import ControllerNode, ControllerServer
from bowstring.engine.broker.controller_registration import ControllerRegistration
from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.housekeeping import Housekeeping
from bowstring.engine.broker.image_follower import ImageFollower
from bowstring.engine.broker.lifecycle import BrokerLifecycle
from bowstring.engine.broker.metrics_server import MetricsServer
from bowstring.engine.broker.quota_publisher import QuotaPublisher
from bowstring.engine.broker.replication import Replication
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.local.socket import LocalSocket
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.security.tls_listeners import TlsListeners
from bowstring.engine.storage.cleaner import LogCleaner
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve
from bowstring.engine.storage.log_manager import LogManager
from bowstring.engine.storage.replica_moves import ReplicaMoves
from bowstring.engine.storage.scrubber import Scrubber
from tests.support.access import STANDARD
from tests.support.certificates import authority
from tests.support.descriptors import open_descriptors
from tests.support.quorum_nodes import format_directory
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

KEY = rsa.generate_private_key(65537, 2048)
AUDITED = {"authorizer.class.name": STANDARD, "super.users": "User:a"}
PEER = 'a.PlainLoginModule required username="a" password="b";'
OPENING: list[tuple[object, str]] = [
    (DescriptorReserve, "keep"),
    (QuorumService, "open"),
    (broker_module, "make_plane"),
    (broker_module, "listen"),
    (broker_module, "new_authentication"),
    (broker_module, "advertised_listeners"),
    (controller_node, "make_plane"),
    (controller_node, "listen"),
    (controller_node, "new_authentication"),
    (controller_node, "advertised_listeners"),
    (ControllerServer, "bind"),
    (LogManager, "__init__"),
    (Replication, "__init__"),
    (Dispatcher, "__init__"),
    (LocalSocket, "bind"),
    (ReplicaMoves, "__init__"),
    (Authorizer, "follow"),
    (CommittedConfigs, "load"),
]
STARTING: list[tuple[object, str]] = [
    (QuorumService, "start"),
    (QuorumController, "start"),
    (ControllerRegistration, "start"),
    (Dispatcher, "start"),
    (ControllerServer, "start"),
    (MetricsServer, "start"),
    (BrokerLifecycle, "register"),
    (ImageFollower, "listen"),
    (LogManager, "open_all"),
    (Coordination, "begin_held"),
    (DescriptorReserve, "start"),
    (QuotaPublisher, "start"),
    (ConnectionLimits, "start"),
    (Housekeeping, "start"),
    (LogCleaner, "start"),
    (Scrubber, "start"),
    (ReplicaMoves, "resume"),
    (LocalSocket, "start"),
    (Replication, "start"),
    (DirectoryAssignments, "start"),
    (ImageFollower, "start"),
    (ImageFollower, "begun"),
    (BrokerLifecycle, "unfence"),
    (TlsListeners, "start"),
]
OF_CONTROLLERS = [
    (DescriptorReserve, "keep"),
    (controller_node, "listen"),
    (controller_node, "new_authentication"),
    (ControllerServer, "bind"),
    (QuorumService, "open"),
    (Authorizer, "follow"),
    (QuorumService, "start"),
    (QuorumController, "start"),
    (Dispatcher, "start"),
    (ControllerServer, "start"),
    (MetricsServer, "start"),
]


def name_of(step):
    return f"{step[0].__name__.rpartition('.')[2]}.{step[1]}" if isinstance(step, tuple) else None


class StepFailedError(OSError):
    pass


@pytest.fixture
def settings(tmp_path):
    identity = authority().identity("broker")
    (tmp_path / "broker.pem").write_bytes(identity.certificate + identity.key)
    key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [key | {"kid": "k", "alg": "RS256"}]}))
    return {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "OUTER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:SASL_SSL,CONTROLLER:SASL_SSL",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "inter.broker.listener.name": "OUTER",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": "i",
        "sasl.oauthbearer.expected.audience": "a",
        "bowstring.metrics.port": "0",
    }


def threads():
    return len(os.listdir("/proc/self/task"))


def listening():
    """Sockets of this process that listen."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as each:
                    found += [path.name] * each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return found


def fail(monkeypatch, step):
    """Lets a step do its work and then fail; one that returns what others give back fails before."""
    of, name = step
    original = getattr(of, name) if inspect.isclass(of) else lambda *args, **more: None

    def does(*args, **more):
        original(*args, **more)
        raise StepFailedError(name)

    async def does_later(*args, **more):
        await original(*args, **more)
        raise StepFailedError(name)

    monkeypatch.setattr(of, name, does_later if inspect.iscoroutinefunction(original) else does)


async def run(node):
    """Starts a node and stops it, as programs do it."""
    node.open()
    try:
        async with asyncio.timeout(HANG_S):
            await node.start()
    except BaseException:
        await node.stop()
        raise
    await node.stop()


def check(make, step, monkeypatch):
    before = threads(), listening(), open_descriptors()
    with monkeypatch.context() as broken:
        fail(broken, step)
        with pytest.raises(StepFailedError) as kept:  # the error keeps the node's objects alive
            asyncio.run(run(make()))
    wait_until(
        lambda: threads() <= before[0],
        f"an end of {[each.name for each in threading.enumerate()]}",
    )
    assert listening() == before[1]
    del kept
    assert open_descriptors() <= before[2]


@pytest.mark.parametrize("step", OPENING + STARTING, ids=name_of)
def test_a_broker_that_does_not_start(settings, tmp_path, monkeypatch, step):
    if step[0] is not LocalSocket:
        settings |= AUDITED | {"bowstring.audit.file": str(tmp_path / "audit")}
    check(lambda: Broker(settings), step, monkeypatch)
    assert not list((tmp_path / "data").glob("*.sock*"))
    asyncio.run(run(Broker(settings)))


@pytest.mark.parametrize("step", OF_CONTROLLERS, ids=name_of)
def test_a_controller_that_does_not_start(settings, tmp_path, monkeypatch, step):
    port = steady_port()
    settings |= (
        {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{port}",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": PEER,
        }
        | AUDITED
        | {"bowstring.audit.file": str(tmp_path / "audit")}
    )
    del settings["inter.broker.listener.name"]
    format_directory(tmp_path / "data", 1)
    check(lambda: ControllerNode(settings), step, monkeypatch)
    asyncio.run(run(ControllerNode(settings)))
