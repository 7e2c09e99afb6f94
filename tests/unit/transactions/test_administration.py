"""ListTransactions, DescribeTransactions, and the end of transactional ids."""

import pytest

from bowstring.engine.transactions.administration import TransactionFilter
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.transaction_harness import T0, T1, TransactionHarness

DAY_MS = 24 * 3600 * 1000


def listed(harness, *states, ids=(), duration_ms=-1, pattern=None):
    wanted = TransactionFilter(states, ids, duration_ms, pattern)
    return sorted(
        (each.transactional_id, each.transaction_state)
        for each in harness.shard.list_transactions(wanted, harness.now_ms)
    )


@pytest.fixture
def harness():
    harness = TransactionHarness()
    harness.init(id="idle")
    busy = harness.init(id="busy")
    harness.add(busy, T0, T1, id="busy")
    return harness


def test_lists(harness):
    assert listed(harness) == [("busy", "Ongoing"), ("idle", "Empty")]
    assert listed(harness, "Ongoing") == [("busy", "Ongoing")]
    assert listed(harness, "Ongoing", "Empty") == [("busy", "Ongoing"), ("idle", "Empty")]
    assert listed(harness, ids=[harness.held_state("idle").producer_id]) == [("idle", "Empty")]
    assert listed(harness, pattern="b.*") == [("busy", "Ongoing")]
    assert listed(harness, "Ongoing", duration_ms=1000) == []
    harness.now_ms += 1001
    assert listed(harness, "Ongoing", duration_ms=1000) == [("busy", "Ongoing")]
    assert TransactionFilter(["Ongoing", "Nothing"], []).unknown_states == ["Nothing"]
    assert listed(harness, "Nothing") == []


def test_a_bad_pattern():
    with pytest.raises(KafkaError) as refused:
        TransactionFilter([], [], -1, "[")
    assert refused.value.error is Errors.INVALID_REGULAR_EXPRESSION


def test_describes(harness):
    described = harness.shard.describe("busy")
    assert (described.error_code, described.transaction_state) == (0, "Ongoing")
    assert [(each.topic, each.partitions) for each in described.topics] == [("t", [0, 1])]
    assert described.transaction_timeout_ms == 60_000
    assert harness.shard.describe("?").error_code == Errors.TRANSACTIONAL_ID_NOT_FOUND.code


def test_unused_ids_are_forgotten(harness):
    harness.now_ms += 7 * DAY_MS
    harness.carry(harness.shard.expire(harness.now_ms))
    assert listed(harness) == [("busy", "Ongoing")], "an ongoing transaction stays"
    assert harness.log[-1][1] is None
    assert [each for each in harness.restarted().shard.state.entries] == ["busy"]


def test_an_id_that_is_used_while_it_is_forgotten_waits(harness):
    harness.now_ms += 7 * DAY_MS
    harness.held = []
    harness.carry(harness.shard.expire(harness.now_ms))
    assert harness.init_error(id="idle") is Errors.CONCURRENT_TRANSACTIONS
    harness.commit_held(Errors.NOT_ENOUGH_REPLICAS)
    assert harness.init(id="idle")[1] == 1, "it was not forgotten"
