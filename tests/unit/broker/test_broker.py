"""A broker that follows a quorum of controllers: registration, logs, leaders, configs, and its end.

The tests play the controller's part: its records are appended by the leader of the quorum.
"""

import asyncio
import errno
import logging

import pytest

from bowstring.engine.broker.broker import Broker
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.support import faults
from tests.support.quorum_nodes import FAST, Controllers, format_directory
from tests.support.serving import steady_port
from tests.support.waiting import wait_until_async

BROKER = 10
TOPIC_ID = b"topic-of-a-test!"


class PlayedController:
    """Answers registrations and heartbeats as the active controller does, through the real quorum."""

    def __init__(self, controllers):
        self.controllers = controllers
        self.heartbeats = []
        self.answers_with = {}
        self.fences = False

    async def ask(self, request, timeout_ms=None):
        leader = await self.controllers.leader()
        if isinstance(request, BrokerHeartbeatRequest):
            self.heartbeats.append(request)
            return BrokerHeartbeatResponse(
                is_fenced=request.want_fence or self.fences, should_shut_down=request.want_shut_down
            )
        assert isinstance(request, BrokerRegistrationRequest)
        if self.answers_with.get("registration"):
            return BrokerRegistrationResponse(error_code=self.answers_with.pop("registration").code)
        epoch = leader.quorum.next_offset
        points = [
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=0)
            for each in request.listeners
        ]
        record = RegisterBrokerRecord(
            broker_id=BROKER,
            broker_epoch=epoch,
            incarnation_id=request.incarnation_id,
            end_points=points,
            log_dirs=request.log_dirs,
            fenced=self.fences,
        )
        await leader.quorum.append([record])
        return BrokerRegistrationResponse(broker_epoch=epoch)


def settings_of(controllers, *directories):
    return controllers.settings(1) | {
        **FAST,
        "node.id": str(BROKER),
        "process.roles": "broker",
        "log.dirs": ",".join(map(str, directories)),
        "listeners": f"PLAINTEXT://127.0.0.1:{steady_port()}",
        "bowstring.local.socket": "off",
    }


def run(tmp_path, scenario, *names):
    async def all_of_it():
        controllers = Controllers(tmp_path)
        directories = [tmp_path / name for name in names or ("broker",)]
        for place, directory in enumerate(directories):
            format_directory(directory, BROKER, place=place)
        played = PlayedController(controllers)
        broker = Broker(settings_of(controllers, *directories))
        broker.quorum.ask_leader = played.ask
        try:
            await controllers.start()
            broker.open()
            await scenario(broker, controllers, played)
        finally:
            await broker.stop()
            await controllers.stop()

    asyncio.run(all_of_it())


def partition(leader=BROKER, epoch=0):
    return PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[BROKER], isr=[BROKER], leader=leader, leader_epoch=epoch
    )


def created():
    return [TopicRecord(name="t", topic_id=TOPIC_ID), partition()]


async def is_refused(broker):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


def test_clients_are_refused_until_the_broker_is_unfenced(tmp_path):
    """In the answers of a controller, in its own image, and with the roles of its replicas."""

    async def scenario(broker, controllers, played):
        played.fences = True
        assert await is_refused(broker)
        starting = asyncio.ensure_future(broker.start())
        await wait_until_async(lambda: played.heartbeats and not played.heartbeats[-1].want_fence)
        assert await is_refused(broker)
        assert "unfences" in broker.why_not_ready()
        played.fences = False
        await wait_until_async(lambda: not broker.lifecycle.is_fenced)
        assert await is_refused(broker)
        leader = await controllers.leader()
        epoch = broker.lifecycle.epoch
        await leader.quorum.append(
            [BrokerRegistrationChangeRecord(broker_id=BROKER, broker_epoch=epoch, fenced=-1)]
        )
        await starting
        assert not await is_refused(broker)
        assert broker.why_not_ready() is None

    run(tmp_path, scenario)


def test_a_broker_follows_topics_leaders_and_configs(tmp_path):
    async def scenario(broker, controllers, played):
        await broker.start()
        assert broker.lifecycle.epoch == broker.metadata.image.brokers[BROKER].epoch
        leader = await controllers.leader()
        await leader.quorum.append(created())
        log = await wait_until_async(lambda: broker.logs.get("t", 0))
        config = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5")
        await leader.quorum.append(
            [config, PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=BROKER)]
        )
        await wait_until_async(lambda: log.leader_epoch == 1)
        assert broker.metadata.image.topic_configs("t") == {"retention.ms": "5"}
        await leader.quorum.append([RemoveTopicRecord(topic_id=TOPIC_ID)])
        await wait_until_async(lambda: broker.logs.get("t", 0) is None)

    run(tmp_path, scenario)


def test_a_change_that_cannot_be_carried_out_stays_until_it_can(tmp_path, caplog):
    """The broker is not restarted, and other changes do not wait."""
    other_id, kept_id = b"other-topic-of-a", b"topic-kept-as-is"

    def topic(name, topic_id, count):
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[BROKER],
                isr=[BROKER],
                leader=BROKER,
                leader_epoch=0,
            )
            for index in range(count)
        ]
        return [TopicRecord(name=name, topic_id=topic_id), *partitions]

    async def scenario(broker, controllers, played):
        await broker.start()
        leader = await controllers.leader()
        await leader.quorum.append(topic("kept", kept_id, 1))
        kept = await wait_until_async(lambda: broker.logs.get("kept", 0))

        def fails(original):
            def call(path, flags):
                return -errno.EMFILE if b"/t-" in path or b"/u-" in path else original(path, flags)

            return call

        with faults.replaced("open", fails):
            await leader.quorum.append(topic("t", TOPIC_ID, 6))
            await wait_until_async(lambda: any("tried again" in each.getMessage() for each in caplog.records))
            await leader.quorum.append(topic("u", other_id, 6))
            moved = PartitionChangeRecord(partition_id=0, topic_id=kept_id, leader=BROKER)
            await leader.quorum.append([moved])
            await wait_until_async(lambda: kept.leader_epoch == 1)
            await leader.quorum.append([RemoveTopicRecord(topic_id=other_id)])
            await wait_until_async(lambda: not broker.logs.of_topic("u"))
        logs = await wait_until_async(
            lambda: [log for i in range(6) if (log := broker.logs.get("t", i)) and log.leader_epoch == 0]
        )
        await wait_until_async(lambda: all(broker.replication.leads(TOPIC_ID, index) for index in range(6)))
        assert logs and not broker.logs.of_topic("u")

    with caplog.at_level(logging.INFO, "bowstring"):
        run(tmp_path, scenario)
    lines = [each.getMessage() for each in caplog.records]
    assert sum("could not be carried out" in line for line in lines) == 1
    assert sum("all changes of the cluster are carried out" in line for line in lines) == 1


def test_a_topic_is_removed_although_the_first_attempt_fails(tmp_path):
    async def scenario(broker, controllers, played):
        await broker.start()
        leader = await controllers.leader()
        await leader.quorum.append(created())
        await wait_until_async(lambda: broker.logs.get("t", 0))
        failures = [OSError(errno.EMFILE, "no descriptors"), OSError(errno.ENOMEM, "no memory")]
        sync = broker.logs.sync_removed

        async def sync_removed():
            if failures:
                raise failures.pop()
            await sync()

        broker.logs.sync_removed = sync_removed
        new_id = b"topic-of-new-id!"
        again = PartitionRecord(
            partition_id=0, topic_id=new_id, replicas=[BROKER], isr=[BROKER], leader=BROKER, leader_epoch=0
        )
        await leader.quorum.append([RemoveTopicRecord(topic_id=TOPIC_ID)])
        await leader.quorum.append([TopicRecord(name="t", topic_id=new_id), again])
        await wait_until_async(lambda: broker.replication.leads(new_id, 0))
        assert not failures

    run(tmp_path, scenario)


def test_records_of_a_transaction_count_at_its_end(tmp_path):
    async def scenario(broker, controllers, played):
        await broker.start()
        leader = await controllers.leader()
        await leader.quorum.append([BeginTransactionRecord(name="two batches")])
        end = await leader.quorum.append(created())
        await broker.quorum.reach(end)
        assert broker.logs.get("t", 0) is None
        await leader.quorum.append([EndTransactionRecord()])
        await wait_until_async(lambda: broker.logs.get("t", 0))
        await leader.quorum.append([BeginTransactionRecord(name="given up")])
        await leader.quorum.append([RemoveTopicRecord(topic_id=TOPIC_ID)])
        end = await leader.quorum.append([AbortTransactionRecord(reason="test")])
        await broker.quorum.reach(end)
        assert broker.logs.get("t", 0) is not None

    run(tmp_path, scenario)


def test_a_broker_opens_what_the_cluster_has_at_its_start(tmp_path):
    async def scenario(broker, controllers, played):
        leader = await controllers.leader()
        await leader.quorum.append(created())
        await broker.start()
        assert broker.logs.get("t", 0) is not None
        assert not played.heartbeats[-1].want_fence

    run(tmp_path, scenario)


@pytest.mark.parametrize("moment", ["logs are opened", "roles are given"])
def test_what_leaves_a_broker_while_it_starts_is_removed(tmp_path, moment):
    """A topic is deleted and comes again, and a partition of another one moves away."""

    def led(topic_id):
        return PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[BROKER], isr=[BROKER], leader=BROKER, leader_epoch=0
        )

    async def scenario(broker, controllers, played):
        leader = await controllers.leader()
        moved_id, new_id = b"moved-topic-of-a", b"topic-of-new-id!"
        await leader.quorum.append(
            [*created(), TopicRecord(name="moved", topic_id=moved_id), led(moved_id)],
        )
        open_all, apply = broker.logs.open_all, broker.replication.apply
        loop = asyncio.get_running_loop()

        async def change():
            leaves = PartitionChangeRecord(partition_id=0, topic_id=moved_id, replicas=[1], isr=[1], leader=1)
            comes = [TopicRecord(name="t", topic_id=new_id), led(new_id)]
            end = await leader.quorum.append([RemoveTopicRecord(topic_id=TOPIC_ID), *comes, leaves])
            await broker.quorum.reach(end)

        def meanwhile(*arguments):
            found = open_all(*arguments)
            asyncio.run_coroutine_threadsafe(change(), loop).result()
            return found

        async def late(image, changed, **others):
            broker.replication.apply = apply
            await change()
            await apply(broker.quorum.image, changed, **others)

        if moment == "logs are opened":
            broker.logs.open_all = meanwhile
        else:
            broker.replication.apply = late
        await broker.start()
        await wait_until_async(lambda: broker.replication.leads(new_id, 0))
        assert broker.logs.get("moved", 0) is None
        names = {path.name for path in (tmp_path / "broker").iterdir() if path.is_dir()}
        assert {name for name in names if not name.endswith("-delete")} == {"__cluster_metadata-0", "t-0"}
        assert {name.partition(".")[0] for name in names if name.endswith("-delete")} == {"t-0", "moved-0"}

    run(tmp_path, scenario)


def test_new_partitions_are_divided_among_the_directories(tmp_path):
    """The controller leaves the choice to the broker."""

    async def scenario(broker, controllers, played):
        await broker.start()
        leader = await controllers.leader()
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[BROKER],
                isr=[BROKER],
                leader=BROKER,
                leader_epoch=0,
            )
            for index in range(4)
        ]
        await leader.quorum.append([TopicRecord(name="t", topic_id=TOPIC_ID), *partitions])
        await wait_until_async(lambda: all(broker.logs.get("t", index) for index in range(4)))
        assert sorted(broker.logs.counts().values()) == [2, 2]

    run(tmp_path, scenario, "broker", "other")


def test_a_broker_waits_for_its_old_registration_to_end(tmp_path):
    async def scenario(broker, controllers, played):
        played.answers_with["registration"] = Errors.DUPLICATE_BROKER_REGISTRATION
        await broker.start()
        assert broker.lifecycle.epoch >= 0

    run(tmp_path, scenario)


def test_a_broker_asks_before_it_stops(tmp_path):
    heartbeats = []

    async def scenario(broker, controllers, played):
        await broker.start()
        heartbeats.append(played.heartbeats)

    run(tmp_path, scenario)
    assert heartbeats[0][-1].want_shut_down
