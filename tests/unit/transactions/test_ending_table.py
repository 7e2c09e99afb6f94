"""EndTxn in every state: state, epoch and result of the request against Kafka 4.4's TransactionCoordinatorService."""

import itertools

import pytest

from bowstring.engine.transactions.transaction import MAX_EPOCH, Status
from bowstring.protocol.errors import Errors
from tests.support.transaction_harness import ID, TransactionHarness

ENDS = "the transaction ends now"
SAME = "answered as before; nothing is written"
ITS = Errors.INVALID_TXN_STATE
PF = Errors.PRODUCER_FENCED
CT = Errors.CONCURRENT_TRANSACTIONS
MAPPING = Errors.INVALID_PRODUCER_ID_MAPPING

OFFSETS = (-2, -1, 0, 1)  # of the request's epoch from the one that the coordinator holds
RESULTS = ("abort", "commit")

# Rows: the state; for each of OFFSETS the answers to an abort and to a commit.
BEFORE_VERSION_2 = {
    "Empty": ((PF, PF), (PF, PF), (ITS, ITS), (PF, PF)),
    "Ongoing": ((PF, PF), (PF, PF), (ENDS, ENDS), (PF, PF)),
    "Ongoing, being written": ((PF, PF), (PF, PF), (CT, CT), (PF, PF)),
    "PrepareCommit": ((PF, PF), (PF, PF), (CT, CT), (PF, PF)),
    "PrepareAbort": ((PF, PF), (PF, PF), (CT, CT), (PF, PF)),
    "CompleteCommit": ((PF, PF), (PF, PF), (ITS, SAME), (PF, PF)),
    "CompleteAbort": ((PF, PF), (PF, PF), (SAME, ITS), (PF, PF)),
    "CompleteAbort by a timeout": ((PF, PF), (PF, PF), (SAME, ITS), (PF, PF)),
}
VERSION_2 = {
    "Empty": ((PF, PF), (PF, PF), (ENDS, ITS), (PF, PF)),
    "Ongoing": ((PF, PF), (PF, PF), (ENDS, ENDS), (PF, PF)),
    "Ongoing, being written": ((CT, CT), (CT, CT), (CT, CT), (CT, CT)),
    "PrepareCommit": ((CT, CT), (CT, CT), (CT, CT), (CT, CT)),
    "PrepareAbort": ((CT, CT), (CT, CT), (CT, CT), (CT, CT)),
    "CompleteCommit": ((PF, PF), (ITS, SAME), (ENDS, ITS), (PF, PF)),
    "CompleteAbort": ((PF, PF), (SAME, ITS), (ENDS, ITS), (PF, PF)),
    "CompleteAbort by a timeout": ((PF, PF), (SAME, ITS), (ENDS, ITS), (PF, PF)),
}
CASES = [
    (version, state, offset, result, row[at][number])
    for version, table in ((0, BEFORE_VERSION_2), (2, VERSION_2))
    for state, row in table.items()
    for at, offset in enumerate(OFFSETS)
    for number, result in enumerate(RESULTS)
]


def brought_to(state: str, version: int) -> TransactionHarness:
    """Returns a coordinator with one transactional id in a state; its client is of a transaction version."""
    harness = TransactionHarness()
    for _ in range(4):  # so that there are older epochs
        producer = harness.init()
    if state == "Empty":
        return harness
    assert harness.add(producer, version=version) is Errors.NONE
    harness.holds_markers = state.startswith("Prepare")
    if state == "CompleteAbort by a timeout":
        harness.now_ms += 10_000_000
        assert harness.abort_timed_out() == [ID]
    elif state == "Ongoing, being written":
        harness.held = []
        harness.ask_end(producer, version=version)
    elif state != "Ongoing":
        harness.end(producer, commit=state.endswith("Commit"), version=version)
    assert harness.held_state().status.label == state.split(",")[0].split(" ")[0]
    return harness


def check(
    harness: TransactionHarness, request: tuple[int, int], version: int, commit: bool, expected: object
) -> None:
    """Sends EndTxn and looks at the answer, the log and the state."""
    before, written = harness.held_state(), len(harness.log)
    token = harness.ask_end(request, commit=commit, version=version)
    answer = harness.answers[token]
    goes_on = answer.producer_id, answer.producer_epoch
    if expected is ENDS:
        assert answer.error_code == 0
        assert len(harness.log) == written + 2, "decided, and completed"
        after = harness.held_state()
        assert after.status is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
        assert after.epoch == before.epoch + (version == 2)
        assert goes_on == ((after.producer_id, after.epoch) if version == 2 else (-1, -1))
        return
    assert len(harness.log) == written and harness.held_state() == before
    if expected is SAME:
        assert answer.error_code == 0
        assert goes_on == ((before.producer_id, before.epoch) if version == 2 else (-1, -1))
    else:
        assert Errors.of(answer.error_code) is expected
        assert goes_on == (-1, -1)


@pytest.mark.parametrize("taken_over", [False, True], ids=["", "taken over"])
@pytest.mark.parametrize(("version", "state", "offset", "result", "expected"), CASES)
def test_each_state(
    version: int, state: str, offset: int, result: str, expected: object, taken_over: bool
) -> None:
    harness = brought_to(state, version)
    if taken_over:
        if state == "Ongoing, being written":
            expected = dict(zip(RESULTS, VERSION_2["Ongoing"][OFFSETS.index(offset)], strict=True))[result]
        harness = harness.restarted(holds_markers=state.startswith("Prepare"))
    held = harness.held_state()
    request = held.producer_id, held.epoch + offset
    check(harness, request, version, result == "commit", expected)


@pytest.mark.parametrize(("version", "state"), list(itertools.product((0, 2), VERSION_2)))
def test_another_producer_id(version: int, state: str) -> None:
    harness = brought_to(state, version)
    held = harness.held_state()
    expected = CT if version == 2 and harness.entry().pending is not None else MAPPING
    for offset, commit in itertools.product(OFFSETS, (False, True)):
        check(harness, (held.producer_id + 7, held.epoch + offset), version, commit, expected)


# The id was used up by the end of a transaction, or by its timeout; then the client repeats its request.
@pytest.mark.parametrize("taken_over", [False, True], ids=["", "taken over"])
@pytest.mark.parametrize("by", ["an abort", "a commit", "a timeout"])
@pytest.mark.parametrize("commit", [False, True])
def test_a_request_repeated_over_a_new_producer_id(by: str, commit: bool, taken_over: bool) -> None:
    harness = TransactionHarness()
    producer_id, _ = harness.init()
    object.__setattr__(harness.entry().committed, "epoch", MAX_EPOCH - 1)
    last = producer_id, MAX_EPOCH - 1
    assert harness.add(last) is Errors.NONE
    if by == "a timeout":
        harness.now_ms += 10_000_000
        assert harness.abort_timed_out() == [ID]
    else:
        harness.end(last, commit=by == "a commit")
    if taken_over:
        harness = harness.restarted()
    held = harness.held_state()
    assert held.producer_id != producer_id and held.epoch == 0
    check(harness, last, 2, commit, SAME if commit == (by == "a commit") else ITS)
    check(harness, (producer_id, MAX_EPOCH - 2), 2, commit, MAPPING)
    check(harness, last, 0, commit, MAPPING)
