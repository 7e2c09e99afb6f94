"""The share coordinator of a broker that runs: restarts, pruning, deleted topics, the persister."""

import asyncio

import pytest

from bowstring.engine.metadata.names import SHARE_TOPIC
from bowstring.engine.share.persister.interface import (
    SharePartitionKey,
    WrittenState,
    coordinator_key,
    parse_coordinator_key,
)
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.share_batches import StateBatch
from tests.support.embedded import loop_of
from tests.support.served_broker import Served
from tests.support.waiting import HANG_S, wait_until

CONFIG = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}


@pytest.fixture
def served(tmp_path):
    running = Served(tmp_path, **CONFIG)
    yield running
    running.stop()


def run(served, work):
    """Runs a coroutine on the control thread."""
    return asyncio.run_coroutine_threadsafe(work, loop_of(served.broker)).result(HANG_S)


def written(first, last, start_offset=-1):
    return WrittenState(0, 0, start_offset, 0, (StateBatch(first, last, 2, 1),))


def test_state_outlives_the_broker(served):
    key = SharePartitionKey("g", served.create_topic("t"), 0)
    persister = served.engine.coordination.persister
    assert run(served, persister.initialize(key, 0, -1)) is Errors.NONE
    for first in range(0, 50, 10):
        assert run(served, persister.write_state(key, written(first, first + 9, 0))) is Errors.NONE
    served.restart()
    found = run(served, served.engine.coordination.persister.read_state(key, 1))
    assert found == (Errors.NONE, 0, 0, (StateBatch(0, 49, 2, 1),))
    summary = run(served, served.engine.coordination.persister.read_summary(key))
    assert (summary.error, summary.leader_epoch, summary.start_offset) == (Errors.NONE, 1, 0)


def test_pruning(served):
    topic_id = served.create_topic("t", 4)
    keys = [SharePartitionKey("g", topic_id, index) for index in range(4)]
    persister = served.engine.coordination.persister
    for key in keys:
        run(served, persister.initialize(key, 0, 0))
        for first in range(12):
            run(served, persister.write_state(key, written(first, first)))

    async def prune():
        await served.engine.coordination.share_coordinator.prune()
        return sum(log.log_start_offset for log in served.engine.logs.of_topic(SHARE_TOPIC))

    assert run(served, prune()) > 0
    served.restart()
    for key in keys:
        found = run(served, served.engine.coordination.persister.read_state(key, 0))
        assert found.batches == (StateBatch(0, 11, 2, 1),)


def test_deleted_topics_lose_their_state(served):
    key = SharePartitionKey("g", served.create_topic("t"), 0)
    run(served, served.engine.coordination.persister.initialize(key, 0, 0))
    served.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t", topic_id=bytes(16))]), 6)

    async def shards():
        return sum(len(each.shard) for each in served.engine.coordination.share_coordinator.ready())

    wait_until(lambda: run(served, shards()) == 0)


def test_deleting_what_is_not_there(served):
    key = SharePartitionKey("g", served.create_topic("t"), 0)
    persister = served.engine.coordination.persister
    assert run(served, persister.read_state(key, 0)).error is Errors.INVALID_REQUEST
    assert run(served, persister.delete(key)) is Errors.NONE
    assert run(served, persister.write_state(key, written(0, 0))) is Errors.INVALID_REQUEST
    assert run(served, persister.read_summary(key)).start_offset == -1


def test_keys():
    key = SharePartitionKey("a:b", bytes(range(16)), 7)
    assert parse_coordinator_key(coordinator_key(key)) == key
    assert parse_coordinator_key(f"g:{'A' * 22}:-1").partition == -1
    numbers = ("x", "", "²", "1_0", " 1", str(1 << 31), "9" * 5000)
    for text in ("", "g", "g:t:0", f" :{'A' * 22}:0", *(f"g:{'A' * 22}:{each}" for each in numbers)):
        with pytest.raises(ValueError):
            parse_coordinator_key(text)


def test_find_coordinator(served):
    key = coordinator_key(SharePartitionKey("g", served.create_topic("t"), 0))
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "g"])
    good, bad = served.ask(request, 6).coordinators
    assert (good.error_code, good.port) == (0, served.broker.port)
    assert bad.error_code == Errors.INVALID_REQUEST.code
