"""InitProducerId: ids, epochs and fencing."""

import pytest

from bowstring.engine.transactions.transaction import MAX_EPOCH, Status
from bowstring.protocol.errors import Errors
from tests.support.transaction_harness import ID, T0, TransactionHarness


def test_a_new_transactional_id_begins_at_epoch_0():
    harness = TransactionHarness()
    producer = harness.init()
    assert producer == (1001, 0)
    assert harness.held_state().status is Status.EMPTY
    assert harness.init() == (1001, 1), "the next producer fences the first"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_range(timeout_ms):
    assert TransactionHarness().init_error(timeout_ms=timeout_ms) is Errors.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_that_goes_on_names_its_epoch():
    harness = TransactionHarness()
    producer_id, epoch = harness.init()
    assert harness.init((producer_id, epoch)) == (producer_id, 1)
    assert harness.init((producer_id, epoch)) == (producer_id, 1), "a repeated request raises nothing"
    assert harness.init((producer_id, 1)) == (producer_id, 2)
    assert harness.init_error((producer_id, 0)) is Errors.PRODUCER_FENCED
    assert harness.init_error((producer_id + 7, 2)) is Errors.PRODUCER_FENCED


def test_a_producer_that_another_has_followed_cannot_go_on():
    harness = TransactionHarness()
    first = harness.init()
    harness.init()
    assert harness.init_error(first) is Errors.PRODUCER_FENCED


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_ongoing_transaction_is_aborted_first(level):
    harness = TransactionHarness(level)
    producer = harness.init()
    assert harness.add(producer, version=level) is Errors.NONE
    harness.holds_markers = True
    assert harness.init_error() is Errors.CONCURRENT_TRANSACTIONS
    (sent,) = harness.markers
    assert sent.transaction.status is Status.PREPARE_ABORT
    assert sent.transaction.epoch == producer[1] + 1, "the marker fences the old producer"
    assert harness.init_error() is Errors.CONCURRENT_TRANSACTIONS, "until the markers are written"
    harness.write_markers()
    assert harness.held_state().status is Status.COMPLETE_ABORT
    assert harness.init() == (producer[0], producer[1] + 2)
    assert harness.add(producer) is Errors.PRODUCER_FENCED


def exhausted(harness):
    """Returns a producer with the last epoch that clients get."""
    producer_id, _ = harness.init()
    entry = harness.entry()
    object.__setattr__(entry.committed, "epoch", MAX_EPOCH - 1)
    return producer_id, MAX_EPOCH - 1


def test_a_new_id_when_all_epochs_are_used_up():
    harness = TransactionHarness()
    producer_id, _ = exhausted(harness)
    again = harness.init()
    assert again == (harness.next_id, 0) and again[0] != producer_id


def test_a_repeated_request_for_a_new_id():
    harness = TransactionHarness()
    old = exhausted(harness)
    new = harness.init(old)
    assert new[1] == 0
    assert harness.init(old) == new


@pytest.mark.parametrize("level", [0, 2])
def test_fencing_uses_the_last_epoch(level):
    harness = TransactionHarness(level)
    old = exhausted(harness)
    assert harness.add(old, version=level) is Errors.NONE
    assert harness.init_error() is Errors.CONCURRENT_TRANSACTIONS
    (sent,) = harness.markers
    assert sent.transaction.epoch == MAX_EPOCH
    new = harness.init()
    assert new[0] != old[0]


def test_a_refused_write_changes_nothing():
    harness = TransactionHarness()
    producer = harness.init()
    harness.refusal = Errors.NOT_ENOUGH_REPLICAS
    assert harness.init_error() is Errors.COORDINATOR_NOT_AVAILABLE
    harness.refusal = Errors.NONE
    assert harness.held_state().epoch == producer[1]
    assert harness.init() == (producer[0], producer[1] + 1)


def test_nothing_is_answered_before_it_is_committed():
    harness = TransactionHarness()
    harness.held = []
    token = harness.ask_init()
    assert token not in harness.answers
    assert harness.answers[harness.ask_init()].error_code == Errors.CONCURRENT_TRANSACTIONS.code
    harness.commit_held()
    assert harness.answers[token].producer_epoch == 0


def test_an_unloaded_shard_answers_what_waits():
    harness = TransactionHarness()
    harness.held = []
    token = harness.ask_init()
    harness.carry(harness.shard.unload(harness.now_ms))
    assert harness.answers[token].error_code == Errors.NOT_COORDINATOR.code


def test_the_state_survives_a_restart():
    harness = TransactionHarness()
    producer = harness.init()
    harness.add(producer, T0)
    other = harness.restarted()
    assert other.held_state() == harness.held_state()
    assert other.shard.describe(ID).transaction_state == "Ongoing"
