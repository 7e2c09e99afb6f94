"""AddPartitionsToTxn, to add and to verify."""

from bowstring.engine.transactions.transaction import Status
from bowstring.protocol.errors import Errors
from tests.support.transaction_harness import ID, T0, T1, TransactionHarness

DAY_MS = 24 * 3600 * 1000


def test_partitions_begin_and_join_a_transaction():
    harness = TransactionHarness()
    producer = harness.init()
    assert harness.add(producer, T0) is Errors.NONE
    assert harness.held_state().status is Status.ONGOING
    assert harness.held_state().started_ms == harness.now_ms
    began_ms, harness.now_ms = harness.now_ms, harness.now_ms + 5
    assert harness.add(producer, T1) is Errors.NONE
    held = harness.held_state()
    assert held.partitions == {T0, T1} and held.started_ms == began_ms and held.updated_ms == harness.now_ms


def test_known_partitions_write_nothing():
    harness = TransactionHarness()
    producer = harness.init()
    harness.add(producer, T0)
    before = len(harness.log)
    assert harness.add(producer, T0) is Errors.NONE
    assert len(harness.log) == before


def test_strangers():
    harness = TransactionHarness()
    producer_id, epoch = harness.init()
    assert harness.add((producer_id, epoch), id="y") is Errors.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id + 1, epoch)) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id, epoch + 1)) is Errors.PRODUCER_FENCED
    assert harness.verify((producer_id + 1, epoch)) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert harness.verify((producer_id, epoch + 1)) is Errors.PRODUCER_FENCED


def test_a_transaction_that_ends_takes_no_partitions():
    harness = TransactionHarness()
    producer = harness.init()
    harness.add(producer, T0, version=0)
    harness.holds_markers = True
    harness.end(producer, version=0)
    assert harness.add(producer, T1) is Errors.CONCURRENT_TRANSACTIONS
    assert harness.verify(producer, T0) is Errors.CONCURRENT_TRANSACTIONS
    harness.write_markers()
    assert harness.add(producer, T1) is Errors.NONE


def test_to_verify():
    harness = TransactionHarness()
    producer = harness.init()
    assert harness.verify(producer, T0) is Errors.TRANSACTION_ABORTABLE
    harness.add(producer, T0, version=0)
    assert harness.verify(producer, T0) is Errors.NONE
    assert harness.verify(producer, T1) is Errors.TRANSACTION_ABORTABLE
    harness.end(producer, version=0)
    assert harness.verify(producer, T0) is Errors.TRANSACTION_ABORTABLE, "a late batch is refused"


def test_a_transaction_that_times_out_is_aborted_and_fenced():
    harness = TransactionHarness()
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    assert harness.abort_timed_out() == []
    harness.now_ms += 1001
    assert harness.abort_timed_out() == [ID]
    held = harness.held_state()
    assert held.status is Status.COMPLETE_ABORT and held.epoch == producer[1] + 1
    assert harness.add(producer, T0) is Errors.PRODUCER_FENCED
    assert harness.end_error(producer, commit=True) is Errors.INVALID_TXN_STATE
    assert harness.end(producer, commit=False) == (producer[0], producer[1] + 1), "an abort finds it done"


def test_a_clock_that_is_set_forward_aborts_no_transaction():
    harness = TransactionHarness()
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    assert harness.abort_timed_out() == []
    harness.now_ms += DAY_MS
    harness.step_ms += DAY_MS
    assert harness.abort_timed_out() == []
    harness.now_ms += 1001
    assert harness.abort_timed_out() == [ID]


def test_the_clock_is_set_forward_before_the_first_look_at_a_transaction():
    harness = TransactionHarness()
    producer = harness.init(timeout_ms=1000)
    assert harness.abort_timed_out() == []
    harness.now_ms += 10
    harness.add(producer, T0)
    harness.now_ms += DAY_MS
    harness.step_ms += DAY_MS
    assert harness.abort_timed_out() == [], "it began after the last look"
    harness.now_ms += 991
    assert harness.abort_timed_out() == [ID], "10 ms before the first look count"


def test_a_clock_that_is_set_back_does_not_keep_transactions_open():
    harness = TransactionHarness()
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    harness.now_ms -= DAY_MS
    harness.step_ms -= DAY_MS
    assert harness.abort_timed_out() == []
    harness.now_ms += 1001
    assert harness.abort_timed_out() == [ID]


def test_the_next_transaction_of_an_id_has_its_own_timeout():
    harness = TransactionHarness()
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    assert harness.abort_timed_out() == []
    harness.now_ms += 900
    producer = harness.end(producer)
    harness.add(producer, T0)
    harness.now_ms += 900
    assert harness.abort_timed_out() == []
    harness.now_ms += 101
    assert harness.abort_timed_out() == [ID]


def test_a_timeout_of_an_older_protocol_fences_for_good():
    harness = TransactionHarness(level=0)
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0, version=0)
    harness.now_ms += 1001
    assert harness.abort_timed_out() == [ID]
    assert harness.end_error(producer, commit=False, version=0) is Errors.PRODUCER_FENCED
