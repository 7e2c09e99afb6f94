"""Three controllers elect a leader and replicate records over real sockets."""

import asyncio
import errno
import os
import time

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import decode_batches
from bowstring.engine.broker.controller_node import ControllerNode
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.messages import FetchRequest
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from bowstring.protocol.messages.alter_partition import AlterPartitionRequest
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from tests.support import faults
from tests.support.quorum_nodes import Controllers
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause, pause_async, wait_until_async


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big"))


def run(directory, scenario, **configs):
    async def all_of_it():
        controllers = Controllers(directory, **configs)
        try:
            await scenario(controllers)
        finally:
            await controllers.stop()

    asyncio.run(all_of_it())


def names(node):
    return set(node.quorum.image.topics)


async def everywhere(controllers, expected):
    await wait_until_async(lambda: all(names(node) == expected for node in controllers.nodes.values()))


def test_records_reach_all_controllers(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        applied = []
        leader.quorum.on_applied.append(
            lambda records, end, epoch: applied.append((len(records), end, epoch))
        )
        first = leader.quorum.next_offset
        assert await leader.quorum.append([topic(1), topic(2)]) == first + 2
        assert (2, first + 2, leader.quorum.epoch) in applied  # the leader may append records of its own
        await everywhere(controllers, {"t1", "t2"})

    run(tmp_path, scenario)


def test_records_carry_the_time_of_day(tmp_path):
    async def scenario(controllers):
        before_ms = time.time_ns() // 1_000_000
        await controllers.start()
        leader = await controllers.leader()
        await leader.quorum.append([topic(1)])
        (segment,) = (tmp_path / str(leader.node_id) / METADATA_PARTITION_DIRECTORY).glob("*.log")
        written = [record.timestamp for record in decode_batches(segment.read_bytes())]
        # A clock may be set while the test runs.
        assert all(abs(timestamp - before_ms) < 3_600_000 for timestamp in written) and written

    run(tmp_path, scenario)


def test_what_is_due_is_done_where_the_kraft_version_stays(tmp_path):
    """A request for the cluster's level writes the collected records, and answers the waiting request."""

    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        other = next(node for node in controllers.nodes.values() if node is not leader)
        waiting = asyncio.ensure_future(leader.quorum.ask(fetch_of(other, leader.quorum)))
        await asyncio.sleep(0)
        appended = leader.quorum.append([topic(1)])
        pause(0.1, "records are collected for 25 ms; the loop is not to write them")
        await leader.quorum.upgrade_kraft_version(leader.quorum.kraft_version)
        async with asyncio.timeout(HANG_S):
            await appended
            await waiting

    run(tmp_path, scenario, **{"controller.quorum.append.linger.ms": "25"})


def test_a_kraft_version_that_stays_is_answered_behind_what_was_appended_before(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        appended = leader.quorum.append([topic(1)])
        answered = leader.quorum.upgrade_kraft_version(leader.quorum.kraft_version)
        assert not answered.done()
        async with asyncio.timeout(HANG_S):
            assert await answered == await appended
            assert await leader.quorum.upgrade_kraft_version(leader.quorum.kraft_version) >= await appended

    run(tmp_path, scenario, **{"controller.quorum.append.linger.ms": "25"})


def test_a_leadership_may_end_while_the_kraft_version_is_asked_for(tmp_path):
    """The leader finds in this step that a majority has not fetched for too long."""

    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        appended = leader.quorum.append([topic(1)])
        pause(1.5, "a majority is silent for longer than the quorum's fetch timeout, and half of it more")
        answered = leader.quorum.upgrade_kraft_version(leader.quorum.kraft_version)
        async with asyncio.timeout(HANG_S):
            for each in (answered, appended):
                with pytest.raises(KafkaError) as refused:
                    await each
                assert refused.value.error is Errors.NOT_CONTROLLER
            await (await controllers.leader()).quorum.append([topic(2)])
        assert not leader.quorum.has_failed

    run(tmp_path, scenario, **{"controller.quorum.fetch.timeout.ms": "500"})


def test_only_the_leader_appends(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        other = next(node for node in controllers.nodes.values() if node is not leader)
        with pytest.raises(KafkaError) as refused:
            await other.quorum.append([topic(1)])
        assert refused.value.error is Errors.NOT_CONTROLLER

    run(tmp_path, scenario)


def test_another_controller_takes_over_and_keeps_the_records(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        await leader.quorum.append([topic(1)])
        epoch = leader.quorum.epoch
        await controllers.stop(leader.node_id)
        second = await controllers.leader()
        assert second.quorum.epoch > epoch
        await second.quorum.append([topic(2)])
        await controllers.start(leader.node_id)
        await everywhere(controllers, {"t1", "t2"})

    run(tmp_path, scenario)


def test_appends_fail_when_the_leader_loses_its_followers(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        told = []
        leader.quorum.on_leader_change.append(lambda id, epoch: told.append(id))
        await controllers.stop(*(id for id in controllers.ports if id != leader.node_id))
        with pytest.raises(KafkaError) as failed:
            await leader.quorum.append([topic(1)])
        assert failed.value.error is Errors.NOT_CONTROLLER
        await wait_until_async(lambda: told and not leader.quorum.is_leader)

    run(tmp_path, scenario)


def test_a_listener_that_fails_keeps_no_other_from_what_happens(tmp_path, caplog):
    """The one that becomes leader resigns: the listener that failed may be its controller."""

    async def scenario(controllers):
        told, failed = [], []
        await controllers.start()
        leader = await controllers.leader()

        def listen(node):
            def fail_once(id, epoch):
                if id == node.node_id and not failed:
                    failed.append((id, epoch))
                    raise ZeroDivisionError("on purpose")

            node.quorum.on_leader_change += [fail_once, lambda *leader: told.append(leader)]

        for node in controllers.nodes.values():
            listen(node)
        leader.quorum.resign()
        await wait_until_async(lambda: failed and failed[0] in told)
        await wait_until_async(
            lambda: any(
                each.quorum.is_leader and each.quorum.epoch > failed[0][1]
                for each in controllers.nodes.values()
            )
        )
        assert not any(each.quorum.has_failed for each in controllers.nodes.values())
        assert "a listener failed" in caplog.text

    run(tmp_path, scenario)


def test_a_follower_without_the_log_gets_a_snapshot(tmp_path):
    async def scenario(controllers):
        await controllers.start(1, 2)
        leader = await controllers.leader()
        for number in range(20):
            await leader.quorum.append([topic(number)])
        await wait_until_async(lambda: leader.quorum.latest_snapshot)
        await controllers.start(3)
        images = []
        controllers.nodes[3].quorum.on_snapshot.append(lambda image, end, epoch: images.append(end))
        await everywhere(controllers, {f"t{number}" for number in range(20)})
        assert images

    run(tmp_path, scenario, metadata_log_max_record_bytes_between_snapshots="500")


def test_a_snapshot_comes_due_where_nothing_more_is_appended(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        quorum = (await controllers.leader()).quorum
        await wait_until_async(lambda: quorum.latest_snapshot)
        assert quorum.latest_snapshot.offset == quorum.log_end_offset

    run(tmp_path, scenario, count=1, metadata_log_max_snapshot_interval_ms="300")


def test_a_leader_whose_process_ended_is_replaced_before_the_fetch_timeout(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        others = [node for node in controllers.nodes.values() if node is not leader]
        assert not await others[0].quorum.has_lost_majority()
        await controllers.kill(leader.node_id)
        await wait_until_async(lambda: any(node.quorum.is_leader for node in others))
        second = next(node for node in others if node.quorum.is_leader)
        await controllers.kill(second.node_id)
        (last,) = (node for node in others if node is not second)
        assert await last.quorum.has_lost_majority()

    run(tmp_path, scenario, **{"controller.quorum.fetch.timeout.ms": str(FOR_EVER_MS)})


def test_a_replica_that_has_ended_answers_that(tmp_path):
    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        other = next(node for node in controllers.nodes.values() if node is not leader)
        waiting = asyncio.ensure_future(leader.quorum.ask(fetch_of(other, leader.quorum)))
        await leader.quorum.stop(0)
        async with asyncio.timeout(HANG_S):
            await waiting
            late = await leader.quorum.ask(fetch_of(other, leader.quorum))
        assert late.error is Errors.BROKER_NOT_AVAILABLE

    run(tmp_path, scenario)


def test_a_replica_whose_log_cannot_be_read_at_its_start_ends_with_that(tmp_path, caplog):
    """Its end says nothing else."""

    async def scenario(controllers):
        await controllers.start()
        await controllers.leader()
        await controllers.stop(1)
        node = ControllerNode(controllers.settings(1))
        node.open()
        with (
            faults.all_replaced({each: refuses for each in ("open", "pread")}),
            pytest.raises(LogError, match="read from"),
        ):
            await node.start()
        await node.stop(0)

    run(tmp_path, scenario, count=1)
    assert "AttributeError" not in caplog.text


def refuses(original):
    return lambda *arguments: -errno.EIO


def fetch_of(node, leader):
    """A Fetch that waits at the leader."""
    end = OffsetAndEpoch(leader.log_end_offset, leader.epoch)
    key = next(each.key for each in leader.voters if each.key.id == node.node_id)
    return FetchRequest(None, key, leader.epoch, end, end.offset, FOR_EVER_MS, 1000)


@pytest.mark.parametrize("operation", ["pwritev", "sync"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_under_a_decision_is_no_bug(tmp_path, caplog, operation, error):
    """The controller gives up, the log names the directory and the cure, and the node is to end."""

    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        controller = leader.server.controller
        await wait_until_async(lambda: controller.is_active)
        with faults.failing(operation, error), pytest.raises(KafkaError) as refused:
            async with controller.changing() as changing:
                await changing.commit([topic(1)])
        assert refused.value.error is Errors.NOT_CONTROLLER
        assert leader.quorum.has_failed and not leader.quorum.is_leader and not controller.is_active
        with pytest.raises(KafkaError) as later:
            await leader.quorum.append([topic(1)])
        assert later.value.error is Errors.NOT_CONTROLLER

    run(tmp_path, scenario, count=1)
    (said,) = [each for each in caplog.records if "so this node ends" in each.getMessage()]
    assert "free space in its directory" in said.getMessage()
    assert vars(said)["facts"]["directory"] == str(tmp_path / "1")
    assert os.strerror(error) in vars(said)["facts"]["detail"]
    assert "bug" not in caplog.text and "Traceback" not in caplog.text


def test_a_decision_that_finds_no_descriptors_is_taken_back(tmp_path, caplog):
    """The controller discards its decisions, and decides again when it leads again."""

    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        controller = leader.server.controller
        await wait_until_async(lambda: controller.is_active)
        epoch, end = leader.quorum.epoch, leader.quorum.log_end_offset
        pause(0.05, "the next append begins a segment after 10 ms")
        with faults.failing("open", errno.EMFILE), pytest.raises(KafkaError) as refused:
            async with controller.changing() as changing:
                await changing.commit([topic(1)])
        assert refused.value.error is Errors.NOT_CONTROLLER
        assert not leader.quorum.has_failed and not controller.is_active
        assert leader.quorum.log_end_offset == end
        await wait_until_async(lambda: controller.is_active)
        assert leader.quorum.epoch > epoch and not controller.image.topics
        async with controller.changing() as changing:
            await changing.commit([topic(1)])
        assert names(leader) == {"t1"}

    run(
        tmp_path, scenario, count=1, **{"metadata.log.segment.ms": "10", "metadata.max.idle.interval.ms": "0"}
    )
    assert "takes no records now" in caplog.text and "bug" not in caplog.text


def test_what_keeps_a_node_alive_does_not_wait_behind_clients(tmp_path):
    """The controller is busy, and more requests of clients wait for it than there are connections."""

    async def scenario(controllers):
        await controllers.start()
        leader = await controllers.leader()
        other = next(node for node in controllers.nodes.values() if node is not leader)
        controller = leader.server.controller
        await wait_until_async(lambda: controller.is_active)
        asked = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)], validate_only=True)
        async with controller.changing():
            waiting = [
                asyncio.ensure_future(other.quorum.ask_leader(asked, FOR_EVER_MS, None, f"{number % 10}"))
                for number in range(100)
            ]
            await pause_async(0.05, "they reach the controller, and wait for its turn")
            heartbeat = BrokerHeartbeatRequest(broker_id=9, broker_epoch=9)
            answer = await other.quorum.ask_leader(heartbeat, FOR_EVER_MS)
            assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
            urgent = [
                asyncio.ensure_future(other.quorum.ask_leader(each, FOR_EVER_MS))
                for each in (
                    AllocateProducerIdsRequest(broker_id=9, broker_epoch=9),
                    AlterPartitionRequest(broker_id=9, broker_epoch=9),
                )
            ]
            await wait_until_async(lambda: len(controller._turns._urgent) >= 2)
            assert not any(each.done() for each in waiting)
        for each in await asyncio.gather(*urgent):
            assert each.error_code == Errors.STALE_BROKER_EPOCH.code
        assert all(each.topics for each in await asyncio.gather(*waiting))

    run(tmp_path, scenario)
