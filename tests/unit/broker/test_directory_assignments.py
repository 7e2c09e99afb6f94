"""What a broker tells the controller about the log directories of its replicas."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from tests.support.waiting import wait_until_async

HERE = b"h" * 16


class Quorum:
    """Takes every assignment."""

    def __init__(self, level):
        self.image = SimpleNamespace(features={"metadata.version": level})
        self.asked = []

    async def ask_leader(self, request):
        self.asked.append(request)
        return AssignReplicasToDirsResponse()


@pytest.mark.parametrize(("level", "count"), [(16, 0), (17, 1)])
def test_clusters_that_know_no_directories_are_told_none(level, count):
    async def scenario():
        quorum = Quorum(level)
        logs = SimpleNamespace(of_topic=lambda name: [SimpleNamespace(failed=False, refuses=False)])
        directories = SimpleNamespace(of=lambda log: SimpleNamespace(directory_id=HERE))
        partition = SimpleNamespace(replicas=(1,), directories=())
        topic = SimpleNamespace(id=b"t" * 16, name="t", partitions=[partition])
        assignments = DirectoryAssignments(quorum, directories, logs, node_id=1, broker_epoch=lambda: 5)
        assignments.start()
        assignments.note(topic)
        await wait_until_async(lambda: len(quorum.asked) >= count)
        if not count:
            await assignments.assign(topic, 0, HERE)
        await assignments.stop()
        assert len(quorum.asked) == count

    asyncio.run(scenario())
