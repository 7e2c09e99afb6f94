"""What a broker tells the controller about the log directories of its replicas."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from tests.support.waiting import wait_until_async

HERE = b"h" * 16


class Log:
    failed = refuses = False


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
        log = Log()
        logs = SimpleNamespace(
            of_topic=lambda name: [log], durability=SimpleNamespace(waiting_logs=lambda: [])
        )
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


def test_a_log_whose_records_wait_for_room_stays_given_up():
    async def scenario():
        quorum = Quorum(17)
        log = Log()
        waiting = [log]
        logs = SimpleNamespace(
            of_topic=lambda name: [log], durability=SimpleNamespace(waiting_logs=lambda: waiting)
        )
        directories = SimpleNamespace(of=lambda log: SimpleNamespace(directory_id=HERE))
        partition = SimpleNamespace(replicas=(1,), directories=())
        topic = SimpleNamespace(id=b"t" * 16, name="t", partitions=[partition])
        assignments = DirectoryAssignments(quorum, directories, logs, node_id=1, broker_epoch=lambda: 5)
        assignments.start()
        assignments.note(topic)
        await asyncio.sleep(0)
        assert not quorum.asked
        waiting.clear()
        assignments.note(topic)
        await wait_until_async(lambda: quorum.asked)
        await assignments.stop()

    asyncio.run(scenario())


def test_a_topic_that_came_again_with_fewer_partitions_ends_nothing():
    """Its logs are still those of the one before."""

    async def scenario():
        quorum = Quorum(17)
        logs = SimpleNamespace(
            of_topic=lambda name: [Log(), Log()], durability=SimpleNamespace(waiting_logs=list)
        )
        directories = SimpleNamespace(of=lambda log: SimpleNamespace(directory_id=HERE))
        partition = SimpleNamespace(replicas=(1,), directories=())
        topic = SimpleNamespace(id=b"t" * 16, name="t", partitions=[partition])
        assignments = DirectoryAssignments(quorum, directories, logs, node_id=1, broker_epoch=lambda: 5)
        assignments.start()
        assignments.note(topic)
        await wait_until_async(lambda: quorum.asked)
        await assignments.stop()
        ((told,),) = [each.topics for each in quorum.asked[0].directories]
        assert [each.partition_index for each in told.partitions] == [0]

    asyncio.run(scenario())
