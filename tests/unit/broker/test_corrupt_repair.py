"""A replica with a corrupt batch fetches it again from another one, whichever of the two leads."""

import asyncio

import pytest

from bowstring._native.log.scrub import scrub_piece
from bowstring.engine.broker.corrupt_repair import batches_within
from bowstring.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.broker_cluster import run
from tests.support.cold_logs import evict, flip, layout
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.waiting import wait_until_async
from tests.support.wire_client import WireClient

BATCHES = 40
CORRUPT_MESSAGE = 2


def port_of(broker):
    return broker.advertised[0].port


def partition_of(cluster):
    return cluster.image().topics["t"].partitions[0]


def ask(broker, request, version):
    client = WireClient(port_of(broker))
    try:
        return client.ask(request, version)
    finally:
        client.close()


async def asked(broker, request, version):
    return await asyncio.to_thread(ask, broker, request, version)


async def filled(cluster):
    """Topic t has two replicas and `BATCHES` batches of ten records."""
    await cluster.create("t", 1, 2)
    await wait_until_async(lambda: "t" in cluster.image().topics)
    for broker in cluster.brokers.values():
        await wait_until_async(lambda each=broker: each.logs.get("t", 0))
    for i in range(BATCHES):
        data = batch(*(b"%d-%d" % (i, k) + b"x" * 900 for k in range(10)))

        async def is_produced(data=data):
            leader = cluster.brokers[partition_of(cluster).leader]
            return only(await asked(leader, produce(data, 9, topic="t", acks=-1), 9)).error_code == 0

        await wait_until_async(is_produced)


async def restarted_with_damage(cluster, id, which):
    """Flips a bit of each of these batches while the broker is stopped."""
    await cluster.brokers.pop(id).stop()
    directory = cluster.directory / str(id) / "t-0"
    batches = layout(directory)
    for each in which:
        flip(batches[each][0], batches[each][1] + 100)
    evict(directory)
    await cluster.start_broker(id)
    await wait_until_async(lambda: set(partition_of(cluster).in_sync) == {10, 11})
    return cluster.brokers[id]


async def values_at(broker, topic_id, offset):
    part = fetched(await asked(broker, fetch(17, topic_id=topic_id, offset=offset), 17))
    return part.error_code, [value for n, value in records_of(part.records or b"") if n >= offset]


@pytest.mark.parametrize("leads", [True, False])
def test_a_corrupt_batch_is_fetched_from_the_other_replica(tmp_path, leads):
    async def scenario(cluster):
        await filled(cluster)
        topic_id = cluster.image().topics["t"].id
        damaged, other = partition_of(cluster).replicas[:: 1 if leads else -1]
        broker = await restarted_with_damage(cluster, damaged, (7, 8, 20))
        if leads:
            wanted = [TopicPartitions(topic="t", partitions=[0])]
            await cluster.ask(ElectLeadersRequest(election_type=0, topic_partitions=wanted))
        await wait_until_async(lambda: partition_of(cluster).leader == (damaged if leads else other))
        in_sync, errors = partition_of(cluster).in_sync, set()

        async def is_repaired():
            error, values = await values_at(broker, topic_id, 70)
            errors.add(error)
            return error == 0 and values[0].startswith(b"7-0")

        while not await is_repaired():
            assert errors <= {
                0,
                CORRUPT_MESSAGE,
                1,
            }  # 1: a follower that does not have the high watermark yet
        log = broker.logs.get("t", 0)
        for base_offset, _, _ in log.segments():
            scrub_piece(log, base_offset)
        broker.replication.repair.look()
        await wait_until_async(lambda: not log.corrupt_ranges())
        assert broker.replication.repair.repaired in (1, 2)
        data, good = (
            b"".join(
                path.read_bytes() for path in sorted((cluster.directory / str(id) / "t-0").glob("*.log"))
            )
            for id in (damaged, other)
        )
        assert data == good
        assert partition_of(cluster).in_sync == in_sync

    run(tmp_path, scenario)


def test_without_another_replica_the_error_stays(tmp_path, caplog):
    async def scenario(cluster):
        await filled(cluster)
        topic_id = cluster.image().topics["t"].id
        id, other = partition_of(cluster).replicas
        broker = await restarted_with_damage(cluster, id, (7,))
        await cluster.brokers.pop(other).stop()
        await wait_until_async(lambda: partition_of(cluster).leader == id)
        error, _ = await values_at(broker, topic_id, 70)
        assert error == CORRUPT_MESSAGE
        await wait_until_async(lambda: "could not be fetched from another replica" in caplog.text)
        assert (await values_at(broker, topic_id, 70))[0] == CORRUPT_MESSAGE
        await cluster.start_broker(other)
        assert await broker.replication.repair.repair_all() == 0
        assert (await values_at(broker, topic_id, 70))[0] == 0

    run(tmp_path, scenario)


def test_whole_batches_of_a_range_are_cut_out():
    batches = [
        offset.to_bytes(8, "big") + batch(b"a", b"b")[8:] for offset in (0, 2, 6, 8)
    ]  # 4 and 5 were compacted
    data = b"".join(batches)
    assert batches_within(data, 2, 8) == (batches[1] + batches[2], 8)
    assert batches_within(data, 3, 8) == (batches[2], 8)
    assert batches_within(data[:-1], 6, 20) == (batches[2], 8)
    assert batches_within(data, 4, 6) == (b"", 6)
    assert batches_within(b"", 4, 6) == (b"", 4)
