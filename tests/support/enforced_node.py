"""A broker that is its own controller, whose authorizer a test instructs."""

from contextlib import contextmanager

import pytest

from bowstring import Broker
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.messages import alter_share_group_offsets as aso
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import offset_commit as oc
from bowstring.protocol.schema import fields_of
from tests.support.fake_authorizer import FakeAuthorizer
from tests.support.serving import steady_port
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

NAME = "secret"
COMMIT = oc.OffsetCommitRequest(
    group_id="g",
    topics=[oc.OffsetCommitRequestTopic(name=NAME, partitions=[oc.OffsetCommitRequestPartition()])],
)
SHARE_OFFSETS = aso.AlterShareGroupOffsetsRequest(
    group_id="s",
    topics=[
        aso.AlterShareGroupOffsetsRequestTopic(
            topic_name=NAME, partitions=[aso.AlterShareGroupOffsetsRequestPartition()]
        )
    ],
)


class Node:
    """The node, with a topic, a group of it, and a share group."""

    def __init__(self, directory, authorizer):
        self.authorizer = authorizer
        port = steady_port()
        self.broker = Broker(
            data_dir=directory,
            config={
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
                "controller.quorum.voters": f"1@127.0.0.1:{port}",
                "node.id": "1",
            },
        ).start()
        self.ports = {"broker": self.broker.port, "controller": port}
        topic = ct.CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
        (made,) = self.ask("broker", ct.CreateTopicsRequest(topics=[topic]), 7).topics
        assert made.error_code == 0
        self.topic_id = made.topic_id
        for request in (COMMIT, SHARE_OFFSETS):
            wait_until(lambda request=request: self._is_done(request))

    def _is_done(self, request):
        """Makes a group; clients retry while the coordinator begins."""
        self.ask("broker", fc.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        codes = codes_of(self.ask("broker", request, min(9, API_VERSIONS[request.api_key].highest)))
        return codes == {0}

    def ask(self, listener, request, version):
        client = WireClient(self.ports[listener])
        try:
            return client.ask(request, version)
        finally:
            client.close()

    @contextmanager
    def instructed(self):
        """Yields the authorizer, which denies nothing before and after."""
        for each in (self.authorizer.denied, self.authorizer.asked, self.authorizer.counted):
            each.clear()
        try:
            yield self.authorizer
        finally:
            self.authorizer.denied.clear()


@contextmanager
def enforced_node(directory):
    """Starts and stops a node."""
    authorizer = FakeAuthorizer()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("broker", "controller_node"):
            patch.setattr(f"bowstring.engine.broker.{module}.Authorizer", lambda configs: authorizer)
        made = Node(directory, authorizer)
    try:
        yield made
    finally:
        made.broker.stop()


def codes_of(message):
    """All error codes of an answer."""
    found = set()
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.add(value)
        elif field.struct is not None and value is not None:
            for each in value if isinstance(value, list) else [value]:
                found |= codes_of(each)
    return found
