"""The in-flight window of a share partition: acquisition, acknowledgements, locks (KIP-932)."""

import pytest

from bowstring._native.share.partition import SharePartition, check_acknowledgements
from bowstring.protocol.errors import Errors
from tests.support.share_records import ABORT, COMMIT, Acknowledged, marker, record_batch

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 1, 2, 3, 4
ANN, BEN = 11, 22
LOCK_MS = 1000


def partition(start=0, batches=(), *, deliveries=5, locks=2000, renew=True):
    made = SharePartition(start, batches)
    made.configure(delivery_count=deliveries, record_locks=locks, lock_ms=LOCK_MS, renew=renew)
    return made


def fetch(share, member, records, *, most=500, now_ms=0, **options):
    options.setdefault("batch_size", 500)
    return share.acquire(
        member, records, fetch_offset=share.next_fetch_offset, max_records=most, now_ms=now_ms, **options
    )


def acknowledge(share, member, *batches, now_ms=0, stored=True):
    change = share.acknowledge(member, [Acknowledged(*each) for each in batches], now_ms)
    if change.error == 0:
        share.complete(change, now_ms, stored=stored)
    return change


def test_a_member_gets_records_and_the_start_moves_when_they_are_done():
    share = partition()
    records = record_batch(0, 9)
    assert fetch(share, ANN, records) == ([(0, 9, 1)], 10, records)
    assert fetch(share, BEN, records) == ([], 0, b"")
    assert share.next_fetch_offset == 10
    change = acknowledge(share, ANN, (0, 4, [ACCEPT]))
    assert change.batches == [(0, 4, ACKNOWLEDGED, 1)]
    assert (share.start_offset, share.end_offset, share.in_flight) == (5, 9, 5)
    acknowledge(share, ANN, (5, 9, [ACCEPT, RELEASE, REJECT, 0, ACCEPT]))
    assert (share.start_offset, share.next_fetch_offset, share.delivery_complete_count) == (6, 6, 3)
    assert fetch(share, BEN, records)[0] == [(6, 6, 2)]
    acknowledge(share, BEN, (6, 6, [ACCEPT]))
    assert (share.start_offset, share.end_offset, share.states()) == (10, 10, [])


def test_what_is_not_stored_yet_shows_to_nobody():
    share = partition()
    fetch(share, ANN, record_batch(0, 1))
    change = share.acknowledge(ANN, [Acknowledged(0, 0, [ACCEPT]), Acknowledged(1, 1, [RELEASE])], 0)
    assert share.start_offset == 0 and share.next_fetch_offset == 2
    again = acknowledge(share, ANN, (0, 0, [ACCEPT]))
    assert again.error == Errors.INVALID_RECORD_STATE.code
    share.complete(change, 0, stored=False)
    assert [state[2] for state in share.states()] == [ACQUIRED, ACQUIRED]
    assert share.delivery_complete_count == 0
    assert acknowledge(share, ANN, (0, 1, [ACCEPT])).error == 0
    assert share.start_offset == 2


def test_a_change_that_is_taken_back_after_the_lock_gives_the_records_back():
    share = partition(deliveries=2)
    fetch(share, ANN, record_batch(0, 0))
    change = share.acknowledge(ANN, [Acknowledged(0, 0, [ACCEPT])], 0)
    assert len(share.expire(LOCK_MS)) == 0
    share.complete(change, LOCK_MS, stored=False)
    assert share.next_deadline_ms == LOCK_MS
    assert share.expire(LOCK_MS).batches == [(0, 0, AVAILABLE, 1)]


@pytest.mark.parametrize(
    ("batch", "error", "reason"),
    [
        ((5, 9, [ACCEPT]), Errors.INVALID_RECORD_STATE, "not in flight"),
        ((10, 25, [ACCEPT]), Errors.INVALID_REQUEST, "The last offset is beyond"),
        ((30, 31, [ACCEPT]), Errors.INVALID_REQUEST, "The first offset is beyond"),
    ],
)
def test_acknowledgements_of_records_that_are_not_in_flight(batch, error, reason):
    share = partition(10)
    fetch(share, ANN, record_batch(10, 19))
    fetch(share, BEN, record_batch(20, 24))
    change = acknowledge(share, ANN, batch)
    if batch[0] == 5:
        assert change.error == 0  # below the start: done already
        return
    assert (change.error, change.batches) == (error.code, []) and reason in change.reason


def test_an_error_takes_everything_of_the_request_back():
    share = partition()
    fetch(share, ANN, record_batch(0, 4))
    fetch(share, BEN, record_batch(5, 9))
    change = acknowledge(share, ANN, (0, 1, [ACCEPT]), (5, 9, [ACCEPT]))
    assert change.error == Errors.INVALID_RECORD_STATE.code
    assert "Another member" in change.reason
    assert {(s[2], s[5]) for s in share.states()} == {(ACQUIRED, False)}
    assert acknowledge(share, ANN, (0, 4, [ACCEPT])).error == 0


def test_locks_end():
    share = partition(deliveries=2)
    records = record_batch(0, 3)
    fetch(share, ANN, records, now_ms=5)
    assert share.next_deadline_ms == 5 + LOCK_MS
    assert len(share.expire(4 + LOCK_MS)) == 0
    acknowledge(share, ANN, (0, 0, [ACCEPT]), now_ms=10)
    assert share.expire(5 + LOCK_MS).batches == [(1, 3, AVAILABLE, 1)]
    assert share.next_deadline_ms is None and share.next_fetch_offset == 1
    assert acknowledge(share, ANN, (1, 1, [ACCEPT])).error == Errors.INVALID_RECORD_STATE.code
    taken, count, _ = fetch(share, BEN, records, now_ms=2000)
    assert (taken, count) == ([(1, 3, 2)], 3)
    assert share.expire(2000 + LOCK_MS).batches == [(1, 3, ARCHIVED, 2)]
    assert share.move_start() and share.start_offset == 4


def test_renewed_locks_last_longer():
    share = partition()
    fetch(share, ANN, record_batch(0, 1))
    assert acknowledge(share, ANN, (0, 0, [RENEW]), now_ms=500).batches == []
    assert share.expire(LOCK_MS).batches == [(1, 1, AVAILABLE, 1)]
    assert share.expire(500 + LOCK_MS).batches == [(0, 0, AVAILABLE, 1)]
    never = partition(renew=False)
    fetch(never, ANN, record_batch(0, 1))
    refused = acknowledge(never, ANN, (0, 1, [RENEW]))
    assert refused.error == Errors.INVALID_RECORD_STATE.code and "does not allow" in refused.reason


def test_a_member_that_leaves_gives_back_only_its_own():
    share = partition()
    fetch(share, ANN, record_batch(0, 4))
    fetch(share, BEN, record_batch(5, 9))
    change = share.release(ANN, 0)
    assert change.batches == [(0, 4, AVAILABLE, 1)]
    share.complete(change, 0, stored=True)
    assert share.next_fetch_offset == 0
    assert acknowledge(share, BEN, (5, 9, [ACCEPT])).error == 0


def test_ranges_end_with_batches_of_the_log():
    share = partition()
    records = b"".join(record_batch(i, i + 9) for i in range(0, 100, 10))
    taken, count, sent = fetch(share, ANN, records, most=45, batch_size=20)
    assert (taken, count) == ([(0, 19, 1), (20, 39, 1), (40, 49, 1)], 50)
    assert sent == records[: len(records) // 2]


def test_a_record_limit_cuts_batches():
    share = partition()
    records = record_batch(0, 9)
    assert fetch(share, ANN, records, most=3, record_limit=True)[0] == [(0, 2, 1)]
    assert share.next_fetch_offset == 3
    assert fetch(share, BEN, records, most=3, record_limit=True)[0] == [(3, 5, 1)]
    assert "Another member" in acknowledge(share, BEN, (0, 0, [ACCEPT])).reason


def test_no_more_than_so_many_records_are_in_flight():
    share = partition(locks=10)
    fetch(share, ANN, b"".join(record_batch(i, i) for i in range(20)))
    assert share.in_flight == 10 and not share.can_acquire
    acknowledge(share, ANN, (3, 3, [RELEASE]))
    assert share.can_acquire
    assert fetch(share, BEN, b"".join(record_batch(i, i) for i in range(3, 20)))[0] == [(3, 3, 2)]


def test_records_that_fail_often_come_in_smaller_portions():
    share = partition(deliveries=4)
    records = record_batch(0, 7)
    for now_ms in (0, 2000):
        assert fetch(share, ANN, records, now_ms=now_ms)[1] == 8
        share.expire(now_ms + LOCK_MS)
    assert fetch(share, ANN, records, now_ms=4000)[0] == [(0, 3, 3)]
    share.expire(4000 + LOCK_MS)
    assert fetch(share, ANN, records, now_ms=6000)[0] == [(0, 0, 4)]


def test_records_of_aborted_transactions_are_archived():
    share = partition()
    parts = [
        record_batch(0, 4, producer_id=7, transactional=True),
        record_batch(5, 9),
        marker(10, 7, ABORT),
        record_batch(11, 14, producer_id=7, transactional=True),
        marker(15, 7, COMMIT),
    ]
    taken, count, sent = fetch(share, ANN, b"".join(parts), aborted=[(7, 0)])
    assert (taken, count, sent) == ([(5, 15, 1)], 11, b"".join(parts[1:]))
    assert share.start_offset == 5


def test_the_log_may_begin_later():
    share = partition()
    fetch(share, ANN, record_batch(0, 4))
    fetch(share, BEN, record_batch(5, 9))
    share.complete(share.release(BEN, 0), 0, stored=True)
    share.log_start_moved(7)
    assert (share.start_offset, share.next_fetch_offset) == (7, 7)
    assert [s[2] for s in share.states() if s[0] >= 5] == [ARCHIVED] * 2 + [AVAILABLE] * 3
    share.log_start_moved(20)
    assert (share.start_offset, share.next_fetch_offset) == (20, 20)
    assert fetch(share, ANN, record_batch(20, 21))[0] == [(20, 21, 1)]


def test_compaction_may_remove_what_is_available():
    share = partition()
    fetch(share, ANN, record_batch(0, 9))
    share.complete(share.release(ANN, 0), 0, stored=True)
    assert fetch(share, ANN, record_batch(5, 9))[0] == [(5, 9, 2)]
    acknowledge(share, ANN, (5, 9, [ACCEPT]))
    assert share.start_offset == 10


def test_stored_state_with_gaps():
    share = partition(10, [(12, 13, ACKNOWLEDGED, 1), (16, 19, AVAILABLE, 2)])
    assert share.next_fetch_offset == 10
    records = record_batch(10, 24)
    taken, count, _ = fetch(share, ANN, records)
    assert taken == [(10, 11, 1), (14, 15, 1), (16, 19, 3), (20, 24, 1)] and count == 13
    assert acknowledge(share, ANN, (10, 11, [ACCEPT])).error == 0
    assert share.start_offset == 14


@pytest.mark.parametrize("batches", [[(4, 4, 0, 1)], [(10, 12, 0, 1), (12, 13, 0, 1)], [(10, 9, 0, 1)]])
def test_stored_state_must_be_in_order(batches):
    with pytest.raises(ValueError, match="does not follow"):
        partition(10, batches)


def test_very_long_batches_are_cut():
    """Compaction leaves gaps of any length; a state for each offset would take memory without bound."""
    share = partition(locks=10)
    last = 2**31 - 2
    records = record_batch(0, last)
    assert fetch(share, ANN, records + record_batch(10**12, 10**12))[0] == [(0, last, 1)]
    acknowledge(share, ANN, (5, 5, [ACCEPT]), (7, 9, [ACCEPT, RELEASE, REJECT]))
    assert len(share.states()) == 7
    acknowledge(share, ANN, (0, 4, [ACCEPT]), (6, 6, [ACCEPT]))
    assert share.start_offset == 8 and share.next_fetch_offset == 8
    acknowledge(share, ANN, (10, last, [ACCEPT]))
    assert fetch(share, BEN, records)[0] == [(8, 8, 2)]
    acknowledge(share, BEN, (8, 8, [ACCEPT]))
    assert share.start_offset == last + 1


@pytest.mark.parametrize(
    ("batches", "renews", "valid"),
    [
        ([(0, 4, [1])], False, True),
        ([(0, 2, [1, 2, 3])], False, True),
        ([(0, 2, [1, 2])], False, False),
        ([(2, 1, [1])], False, False),
        ([(0, 0, [])], False, False),
        ([(5, 6, [1]), (3, 4, [1])], False, False),
        ([(0, 0, [4])], False, False),
        ([(0, 0, [4])], True, True),
        ([(0, 0, [5])], True, False),
        ([(0, 0, [-1])], True, False),
    ],
)
def test_acknowledgements_are_checked(batches, renews, valid):
    assert check_acknowledgements([Acknowledged(*each) for each in batches], renews=renews) is valid


# ---- dead letters (KIP-1191)


def giving_up(**how):
    made = partition(**how)
    made.configure(
        delivery_count=how.get("deliveries", 5),
        record_locks=2000,
        lock_ms=LOCK_MS,
        renew=True,
        dead_letters=True,
    )
    return made


def test_rejected_records_are_archived_once_they_are_copied():
    share = giving_up()
    fetch(share, ANN, record_batch(0, 4))
    change = acknowledge(share, ANN, (0, 4, [ACCEPT, REJECT, REJECT, GAP, ACCEPT]))
    assert change.batches == [
        (0, 0, ACKNOWLEDGED, 1),
        (1, 2, ARCHIVING, 1),
        (3, 3, ARCHIVED, 1),
        (4, 4, ACKNOWLEDGED, 1),
    ]
    assert change.dead_letters == [(1, 2, 1, True)]
    assert (share.start_offset, share.delivery_complete_count) == (1, 2)
    assert fetch(share, BEN, record_batch(0, 4))[0] == [], "they go to nobody else"
    assert acknowledge(share, ANN, (1, 1, [ACCEPT])).error == Errors.INVALID_RECORD_STATE.code
    copied = share.copied(1, 2, 1)
    assert copied.batches == [(1, 2, ARCHIVED, 1)] and copied.dead_letters == []
    assert share.delivery_complete_count == 4
    assert share.move_start() and share.start_offset == 5


def test_without_a_dead_letter_topic_records_are_archived_at_once():
    share = partition()
    fetch(share, ANN, record_batch(0, 1))
    change = acknowledge(share, ANN, (0, 1, [REJECT]))
    assert (change.batches, change.dead_letters) == ([(0, 1, ARCHIVED, 1)], [])


def test_records_that_were_delivered_too_often_are_copied():
    share = giving_up(deliveries=1)
    fetch(share, ANN, record_batch(0, 5))
    change = acknowledge(share, ANN, (0, 2, [RELEASE, REJECT, RELEASE]))
    assert change.dead_letters == [(0, 0, 1, False), (1, 1, 1, True), (2, 2, 1, False)]
    released = share.release(ANN, 0)
    assert released.dead_letters == [(3, 5, 1, False)]
    share.complete(released, 0, stored=False)
    assert share.expire(LOCK_MS).dead_letters == [(3, 5, 1, False)]
    assert share.delivery_complete_count == 0 and share.start_offset == 0


def test_a_copy_that_comes_after_the_log_start_counts_nothing_below_it():
    share = giving_up()
    fetch(share, ANN, record_batch(0, 9))
    acknowledge(share, ANN, (0, 9, [REJECT]))
    share.log_start_moved(4)
    share.copied(0, 8, 1)
    assert share.delivery_complete_count == 5
    assert share.move_start() and share.start_offset == 9


def test_what_the_last_leader_was_copying_is_not_done():
    share = giving_up(batches=[(0, 3, ARCHIVING, 2), (4, 4, ACKNOWLEDGED, 1)])
    assert (share.start_offset, share.delivery_complete_count, share.next_fetch_offset) == (0, 1, 5)
    share.copied(0, 3, 2)
    assert share.move_start() and share.start_offset == 5
