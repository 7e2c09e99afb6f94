"""A log takes the first batch of a transaction only with the token of a verification (KIP-890)."""

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch
from bowstring.engine.transactions.marker_writer import Marker
from bowstring.protocol.errors import Errors
from tests.support.log_batches import NOW_MS, open_log

PRODUCER_ID = 7
NONE, NOT_VERIFIED = 0, -1


@pytest.fixture
def log(tmp_path):
    return open_log(tmp_path)


def append(log, epoch=0, sequence=0, *, verification, transactional=True):
    batch = encode_batch(
        [(b"k", b"v", NOW_MS, ())],
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(batch, 0, NOW_MS, verification=verification)


def mark(log, epoch=0, *, commit=True, version=0, coordinator_epoch=0):
    marker = Marker(PRODUCER_ID, epoch, commit, coordinator_epoch, version)
    return log.append(marker.batch(NOW_MS), 0, NOW_MS, transaction_version=version)


def verified(log, epoch=0):
    token = log.verify(PRODUCER_ID, epoch, adds=False, now_ms=NOW_MS)
    log.verified(PRODUCER_ID, token)
    return token


def refusal(call, *arguments, **how):
    with pytest.raises(LogError) as refused:
        call(*arguments, **how)
    return Errors.of(refused.value.code)


def test_a_transaction_begins_with_a_token(log):
    assert refusal(append, log, verification=NONE) is Errors.INVALID_TXN_STATE
    token = verified(log)
    assert token > 0
    assert refusal(append, log, verification=token + 1) is Errors.INVALID_TXN_STATE
    assert append(log, verification=token) == 0
    assert log.verify(PRODUCER_ID, 0, adds=False, now_ms=NOW_MS) == 0, "it is ongoing"
    assert append(log, sequence=1, verification=NONE) == 1


def test_without_verification_as_configured(log):
    assert append(log, verification=NOT_VERIFIED) == 0


def test_a_marker_voids_tokens(log):
    """A batch that was verified before its transaction ended, and comes late, is refused."""
    token = verified(log)
    mark(log)
    assert refusal(append, log, verification=token) is Errors.INVALID_TXN_STATE
    again = verified(log)
    assert again != token
    assert append(log, verification=again) == 1


def test_a_token_of_the_next_transaction_outlives_the_marker_that_raises_the_epoch(log):
    """Under version 2 a producer begins the next transaction as soon as EndTxn is answered: its first batch
    may wait for the coordinator while the marker is written.
    """
    append(log, epoch=0, verification=verified(log, epoch=0))
    token = verified(log, epoch=1)
    mark(log, epoch=1, version=2)
    assert append(log, epoch=1, verification=token) == 2


def test_a_token_of_the_ended_transaction_does_not_outlive_the_marker(log):
    late = verified(log, epoch=0)
    mark(log, epoch=1, version=2)
    assert refusal(append, log, epoch=1, verification=late) is Errors.INVALID_TXN_STATE


def test_a_late_batch_begins_no_hanging_transaction(log):
    append(log, verification=verified(log))
    mark(log)
    assert refusal(append, log, sequence=1, verification=NONE) is Errors.INVALID_TXN_STATE
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset


def test_markers_fence_older_epochs(log):
    append(log, epoch=0, verification=verified(log))
    mark(log, epoch=1, version=2)
    assert (
        refusal(append, log, epoch=0, sequence=1, verification=NOT_VERIFIED) is Errors.INVALID_PRODUCER_EPOCH
    )
    assert append(log, epoch=1, verification=verified(log, 1)) == 2


def test_a_marker_of_version_2_ends_only_an_older_epoch(log):
    """KIP-1228: a marker that comes twice does not end the next transaction."""
    append(log, epoch=0, verification=verified(log))
    mark(log, epoch=1, version=2)
    assert mark(log, epoch=1, version=2) == 2, "written again after a lost answer"
    append(log, epoch=1, verification=verified(log, 1))
    assert refusal(mark, log, epoch=1, version=2) is Errors.INVALID_PRODUCER_EPOCH
    mark(log, epoch=2, version=2)
    assert refusal(mark, log, epoch=1, version=2) is Errors.INVALID_PRODUCER_EPOCH


def test_markers_of_older_versions_have_the_epoch_of_their_transaction(log):
    append(log, epoch=3, verification=verified(log, 3))
    assert refusal(mark, log, epoch=2) is Errors.INVALID_PRODUCER_EPOCH
    mark(log, epoch=3, coordinator_epoch=5)
    assert refusal(mark, log, epoch=3, coordinator_epoch=4) is Errors.TRANSACTION_COORDINATOR_FENCED


def test_offsets_have_no_sequence_numbers(log):
    token = verified(log)
    append(log, sequence=-1, verification=token)
    append(log, sequence=-1, verification=NONE)
    assert log.log_end_offset == 2, "the second is no duplicate"


def test_truncation_voids_tokens(log):
    append(log, verification=verified(log))
    token = verified(log, 1)
    log.truncate_to(0)
    assert refusal(append, log, epoch=1, verification=token) is Errors.INVALID_TXN_STATE


def test_a_token_is_used_up_when_its_transaction_begins(log):
    token = verified(log)
    append(log, verification=token)
    assert verified(log, 1) != token


def test_later_batches_follow_those_that_still_wait(log):
    """The row stays until the last batch that waits is appended: the next one would overtake it."""
    first, second = (
        log.verify(PRODUCER_ID, 0, adds=False, now_ms=NOW_MS, base_sequence=sequence) for sequence in (0, 1)
    )
    assert first == second
    log.verified(PRODUCER_ID, first)
    append(log, verification=first)
    third = log.verify(PRODUCER_ID, 0, adds=False, now_ms=NOW_MS, base_sequence=2)
    assert third == second
    for sequence in (1, 2):
        log.verified(PRODUCER_ID, second)
        append(log, sequence=sequence, verification=second)
    assert log.verify(PRODUCER_ID, 0, adds=False, now_ms=NOW_MS, base_sequence=3) == 0
