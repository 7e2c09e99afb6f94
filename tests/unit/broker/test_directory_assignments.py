"""What a broker reports to the controller about the log directories of its replicas."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.metadata.directory_ids import LOST, UNASSIGNED
from bowstring.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from tests.support.waiting import wait_until_async

HERE = b"h" * 16


class Log:
    failed = refuses = False


class Logs:
    """The logs of one topic, t."""

    durability = SimpleNamespace(waiting_logs=list)
    missing = ()

    def __init__(self, logs):
        self.logs = logs

    def of_topic(self, name):
        return self.logs

    def is_missing(self, topic, index):
        return index in self.missing

    def __iter__(self):
        return (("t", index, log) for index, log in enumerate(self.logs) if log is not None)


def home(*, failed=False):
    return SimpleNamespace(directory_id=HERE, health=SimpleNamespace(failed=failed))


class Quorum:
    """Accepts every assignment."""

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
        directories = SimpleNamespace(of=lambda log: home())
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
        directories = SimpleNamespace(of=lambda log: home())
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
    """Its logs still belong to the previous topic of that name."""

    async def scenario():
        quorum = Quorum(17)
        logs = SimpleNamespace(
            of_topic=lambda name: [Log(), Log()], durability=SimpleNamespace(waiting_logs=list)
        )
        directories = SimpleNamespace(of=lambda log: home())
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


LED = {"leader": 1, "last_known_leaders": ()}


def reported(known, logs, directory, note, **state):
    """Returns the directory that a broker reports for partition 0, None when it reports none."""

    async def scenario():
        quorum = Quorum(17)
        partition = SimpleNamespace(replicas=(1,), directories=(known,), **LED | state)
        topic = SimpleNamespace(id=b"t" * 16, name="t", partitions=[partition])
        quorum.image.topics = {"t": topic}
        quorum.image.topics_by_id = {topic.id: topic}
        directories = SimpleNamespace(of=lambda log: directory)
        assignments = DirectoryAssignments(quorum, directories, logs, node_id=1, broker_epoch=lambda: 5)
        assignments.start()
        note(assignments, topic)
        for _ in range(5):
            await asyncio.sleep(0)
        await assignments.stop()
        return quorum.asked[0].directories[0].id if quorum.asked else None

    return asyncio.run(scenario())


def test_a_directory_that_failed_before_it_was_reported_is_reported():
    """The report lets the controller elect other leaders for the replicas in it."""
    log = Log()
    log.failed = True
    failed = home(failed=True)
    assert reported(UNASSIGNED, Logs([log]), failed, lambda each, topic: each.note(topic)) == HERE
    assert reported(UNASSIGNED, Logs([log]), failed, lambda each, topic: each.note_failed(failed)) == HERE
    assert reported(HERE, Logs([log]), failed, lambda each, topic: each.note(topic)) is None
    assert reported(UNASSIGNED, Logs([log]), home(), lambda each, topic: each.note(topic)) is None
    assert reported(UNASSIGNED, Logs([log]), home(), lambda each, topic: each.note_failed(failed)) is None


@pytest.mark.parametrize(
    ("known", "told"), [(UNASSIGNED, LOST), (bytes(16), LOST), (HERE, None), (LOST, None)]
)
def test_a_partition_that_got_no_directory_is_reported_as_lost(known, told):
    logs = Logs([None])
    logs.missing = (0,)
    assert reported(known, logs, home(), lambda each, topic: each.note(topic)) == told
    logs.missing = ()  # it is created next
    assert reported(known, logs, home(), lambda each, topic: each.note(topic)) is None


@pytest.mark.parametrize(
    ("leader", "last_known", "told"), [(-1, (1,), None), (-1, (2,), LOST), (1, (), LOST), (2, (1,), LOST)]
)
def test_the_last_known_leader_stays_that_while_it_cannot_serve(leader, last_known, told):
    """Once it serves again it may be the only one with the records."""

    def lose(assignments, topic):
        assignments.lose([(topic.id, 0)])

    state = {"leader": leader, "last_known_leaders": last_known}
    assert reported(HERE, Logs([Log()]), home(), lose, **state) == told
    logs = Logs([None])  # its directory is offline
    logs.missing = (0,)
    assert reported(UNASSIGNED, logs, home(), lambda each, topic: each.note(topic), **state) == told


def test_a_log_that_is_gone_is_reported_of_a_last_known_leader_too():
    async def scenario():
        quorum = Quorum(17)
        partition = SimpleNamespace(replicas=(1,), directories=(HERE,), leader=-1, last_known_leaders=(1,))
        topic = SimpleNamespace(id=b"t" * 16, name="t", partitions=[partition])
        quorum.image.topics_by_id = {topic.id: topic}
        assignments = DirectoryAssignments(quorum, None, Logs([Log()]), node_id=1, broker_epoch=lambda: 5)
        await assignments.lose_now([(topic.id, 0)])
        assert [each.id for each in quorum.asked[0].directories] == [LOST]

    asyncio.run(scenario())
