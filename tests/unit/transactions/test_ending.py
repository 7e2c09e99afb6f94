"""EndTxn in every state, and the markers that follow."""

import pytest

from bowstring.engine.transactions.transaction import MAX_EPOCH, Status
from bowstring.protocol.errors import Errors
from tests.support.transaction_harness import T0, T1, TransactionHarness


def ongoing(level=2, version=2):
    harness = TransactionHarness(level)
    producer = harness.init()
    assert harness.add(producer, T0, T1, version=version) is Errors.NONE
    return harness, producer


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_an_end_writes_markers_and_then_completes(commit, version):
    harness, producer = ongoing(version=version)
    harness.holds_markers = True
    token = harness.ask_end(producer, commit=commit, version=version)
    assert harness.answers[token].error_code == 0, "answered before the markers"
    (sent,) = harness.markers
    assert sent.partitions == {T0, T1} and sent.transaction.is_commit == commit
    assert sent.transaction.epoch == producer[1] + (version == 2)
    assert harness.held_state().status.is_prepared
    harness.carry(harness.shard.marked(sent.transaction, [T0], harness.now_ms))
    assert harness.held_state().status.is_prepared, "one marker is missing"
    assert not harness.ended
    harness.carry(harness.shard.marked(sent.transaction, [T1], harness.now_ms))
    assert harness.ended == [sent.transaction.transactional_id]
    assert harness.held_state().status is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
    assert not harness.held_state().partitions


def test_version_2_returns_the_next_epoch():
    harness, (producer_id, epoch) = ongoing()
    producer = harness.end((producer_id, epoch))
    assert producer == (producer_id, epoch + 1)
    assert harness.add(producer) is Errors.NONE
    assert harness.end(producer) == (producer_id, epoch + 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_is_told_the_same(commit):
    harness, producer = ongoing()
    after = harness.end(producer, commit=commit)
    assert harness.end(producer, commit=commit) == after
    assert harness.end_error(producer, commit=not commit) is Errors.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_while_markers_are_written(commit):
    harness, producer = ongoing()
    harness.holds_markers = True
    harness.end(producer, commit=commit)
    assert harness.end_error(producer, commit=commit) is Errors.CONCURRENT_TRANSACTIONS


# status, whether the request names the epoch before, commit: what Kafka 4.3 answers under transaction version 2
EB = "the epoch is raised"
TABLE = [
    ("Empty", True, False, Errors.PRODUCER_FENCED),
    ("Empty", False, False, EB),
    ("Empty", True, True, Errors.PRODUCER_FENCED),
    ("Empty", False, True, Errors.INVALID_TXN_STATE),
    ("CompleteAbort", True, False, Errors.NONE),
    ("CompleteAbort", False, False, EB),
    ("CompleteAbort", True, True, Errors.INVALID_TXN_STATE),
    ("CompleteAbort", False, True, Errors.INVALID_TXN_STATE),
    ("CompleteCommit", True, False, Errors.INVALID_TXN_STATE),
    ("CompleteCommit", False, False, EB),
    ("CompleteCommit", True, True, Errors.NONE),
    ("CompleteCommit", False, True, Errors.INVALID_TXN_STATE),
]


@pytest.mark.parametrize(("status", "repeats", "commit", "expected"), TABLE)
def test_without_a_transaction_in_version_2(status, repeats, commit, expected):
    harness = TransactionHarness()
    harness.init()
    producer_id, epoch = harness.init()
    if status != "Empty":
        harness.add((producer_id, epoch))
        _, epoch = harness.end((producer_id, epoch), commit=status == "CompleteCommit")
    asked = (producer_id, epoch - 1 if repeats else epoch)
    if expected is EB:
        assert harness.end(asked, commit=commit) == (producer_id, epoch + 1)
        assert harness.held_state().status is Status.COMPLETE_ABORT
    else:
        assert harness.end_error(asked, commit=commit) is expected


@pytest.mark.parametrize(
    ("ended", "commit", "expected"),
    [
        (None, True, Errors.INVALID_TXN_STATE),
        (None, False, Errors.INVALID_TXN_STATE),
        (True, True, Errors.NONE),
        (True, False, Errors.INVALID_TXN_STATE),
        (False, False, Errors.NONE),
        (False, True, Errors.INVALID_TXN_STATE),
    ],
)
def test_without_a_transaction_before_version_2(ended, commit, expected):
    harness = TransactionHarness()
    producer = harness.init()
    if ended is not None:
        harness.add(producer, version=0)
        harness.end(producer, commit=ended, version=0)
    assert harness.end_error(producer, commit=commit, version=0) is expected
    assert harness.held_state().epoch == producer[1]


@pytest.mark.parametrize("version", [0, 2])
def test_strangers(version):
    harness, (producer_id, epoch) = ongoing(version=version)
    how = {"version": version}
    assert harness.end_error((producer_id, epoch), id="y", **how) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert harness.end_error((producer_id + 5, epoch), **how) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert harness.end_error((producer_id, epoch + 3), **how) is Errors.PRODUCER_FENCED
    assert harness.held_state().status is Status.ONGOING


def test_a_late_end_does_not_end_the_next_transaction():
    """The anomaly of KIP-890: a commit that was delayed in the network meets a later transaction."""
    harness, producer = ongoing()
    after = harness.end(producer, commit=False)
    assert harness.add(after) is Errors.NONE
    assert harness.end_error(producer, commit=True) is Errors.PRODUCER_FENCED
    assert harness.held_state().status is Status.ONGOING


def test_epochs_overflow_into_a_new_producer_id():
    harness = TransactionHarness()
    producer_id, _ = harness.init()
    object.__setattr__(harness.entry().committed, "epoch", MAX_EPOCH - 1)
    last = (producer_id, MAX_EPOCH - 1)
    assert harness.add(last) is Errors.NONE
    harness.holds_markers = True
    after = harness.end(last)
    (sent,) = harness.markers
    assert (sent.transaction.producer_id, sent.transaction.epoch) == (producer_id, MAX_EPOCH)
    assert after == (harness.next_id, 0)
    assert harness.add(after) is Errors.CONCURRENT_TRANSACTIONS
    harness.write_markers()
    assert harness.end(last) == after, "a repeated request"
    assert harness.add(after) is Errors.NONE


def test_a_coordinator_that_takes_over_sends_the_markers():
    harness, producer = ongoing()
    harness.holds_markers = True
    harness.end(producer)
    other = harness.restarted()
    (sent,) = other.markers
    assert (sent.transaction.epoch, sent.transaction.is_commit) == (producer[1] + 1, True)
    assert sent.partitions == {T0, T1}
    assert other.held_state().status is Status.COMPLETE_COMMIT


def test_an_end_whose_write_fails_leaves_the_transaction():
    harness, producer = ongoing()
    harness.refusal = Errors.NOT_ENOUGH_REPLICAS
    assert harness.end_error(producer) is Errors.COORDINATOR_NOT_AVAILABLE
    assert not harness.markers
    harness.refusal = Errors.NONE
    assert harness.end(producer) == (producer[0], producer[1] + 1)


def test_a_completion_whose_write_fails_is_tried_again():
    harness, producer = ongoing()
    harness.holds_markers = True
    harness.end(producer)
    harness.refusal = Errors.NOT_ENOUGH_REPLICAS
    harness.write_markers()
    assert harness.later == ["x"] and harness.held_state().status is Status.PREPARE_COMMIT
    harness.refusal = Errors.NONE
    harness.carry(harness.shard.complete("x", harness.now_ms))
    assert harness.held_state().status is Status.COMPLETE_COMMIT


def test_an_unknown_outcome_is_not_decided_again():
    """The record may be committed later: until then, no other decision is possible."""
    harness, producer = ongoing()
    harness.held = []
    token = harness.ask_end(producer)
    assert harness.end_error(producer, commit=False) is Errors.CONCURRENT_TRANSACTIONS
    assert harness.init_error() is Errors.CONCURRENT_TRANSACTIONS
    harness.now_ms += 10_000_000
    assert harness.abort_timed_out() == []
    harness.commit_held()
    assert harness.answers[token].error_code == 0
    assert harness.held_state().status is Status.COMPLETE_COMMIT
