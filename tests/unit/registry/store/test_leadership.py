"""A leader's takeover, its writes and its end, step by step."""

from bowstring.protocol.errors import Errors
from bowstring.registry.store.command_runner import CommandRunner
from bowstring.registry.store.leadership import (
    RENEW_AFTER_S,
    RETRY_PAUSE_S,
    Append,
    Claim,
    Leadership,
    Refusal,
    Stage,
)

WAIT_S = 10.0
MARK = (b"mark", None)
RECORDS = [(b"k", b"v"), (b"l", None)]


def mark():
    return MARK


def next_append(leadership: Leadership, now: float = 0.0) -> Append:
    command = leadership.command(now, mark, 0)
    assert isinstance(command, Append)
    return command


def claimed(*, epoch: int = 4, after_foreign: bool = False) -> Leadership:
    """A leader that may mark."""
    leadership = Leadership(WAIT_S)
    leadership.elect(0.0, after_foreign=after_foreign)
    assert leadership.command(0.0, mark, 0) == Claim(leadership.term)
    leadership.claimed(leadership.term, 7, epoch, 0.0)
    return leadership


def leading() -> Leadership:
    leadership = claimed()
    append = next_append(leadership)
    assert (append.producer_id, append.epoch, append.sequence, append.records) == (7, 4, 0, [MARK])
    assert leadership.appended(leadership.term, 20, 0.0)
    assert leadership.caught_up(21, mark)
    return leadership


def test_a_leader_writes_once_its_image_has_all_below_its_mark():
    leadership = claimed()
    next_append(leadership)
    leadership.appended(leadership.term, 20, 0.0)
    assert not leadership.caught_up(20, mark)
    assert not leadership.can_append
    assert leadership.caught_up(21, mark)
    assert leadership.can_append


def test_sequence_numbers_go_on_and_one_batch_is_in_flight():
    leadership = leading()
    first = leadership.append(RECORDS, 0.0, 5)
    assert first is not None
    assert (first.sequence, first.timestamp_ms) == (1, 5)
    assert not leadership.can_append
    leadership.appended(leadership.term, 21, 0.0)
    second = leadership.append(RECORDS, 0.0, 6)
    assert second is not None
    assert second.sequence == 3


def test_a_first_epoch_waits_and_marks_again():
    leadership = claimed(epoch=0)
    next_append(leadership)
    leadership.appended(leadership.term, 20, 0.0)
    assert leadership.command(WAIT_S - 1, mark, 0) is None
    assert leadership.due_at == WAIT_S
    append = next_append(leadership, WAIT_S)
    assert append.sequence == 1
    leadership.appended(leadership.term, 22, WAIT_S)
    assert not leadership.caught_up(22, mark)
    assert leadership.caught_up(23, mark)


def test_a_first_epoch_on_an_empty_topic_does_not_wait():
    leadership = claimed(epoch=0)
    next_append(leadership)
    leadership.appended(leadership.term, 0, 0.0)
    assert leadership.caught_up(1, mark)


def test_a_leader_after_a_foreign_one_waits():
    leadership = claimed(after_foreign=True)
    next_append(leadership)
    leadership.appended(leadership.term, 20, 0.0)
    assert leadership.stage is Stage.WAITING


def test_a_mark_that_is_outdated_is_written_again():
    leadership = claimed()
    next_append(leadership)
    leadership.appended(leadership.term, 20, 0.0)
    assert not leadership.caught_up(21, lambda: (b"mark", b"newer"))
    assert leadership.stage is Stage.MARKING


def test_who_is_fenced_waits_for_an_election():
    leadership = leading()
    term = leadership.term
    leadership.append(RECORDS, 0.0, 0)
    assert leadership.refused(term, Refusal.FENCED, 0.0)
    assert (leadership.stage, leadership.is_elected) == (Stage.FOLLOWING, False)
    assert leadership.command(100.0, mark, 0) is None
    assert not leadership.appended(term, 21, 0.0)
    leadership.elect(1.0)
    assert isinstance(leadership.command(1.0, mark, 0), Claim)


def test_an_unknown_outcome_is_settled_by_the_next_claim():
    leadership = leading()
    term = leadership.term
    leadership.append(RECORDS, 0.0, 0)
    leadership.refused(term, Refusal.UNKNOWN, 0.0)
    assert leadership.command(0.0, mark, 0) is None
    assert leadership.command(RETRY_PAUSE_S, mark, 0) == Claim(term + 1)


def test_a_refused_batch_leaves_its_sequence_numbers():
    leadership = leading()
    leadership.append(RECORDS, 0.0, 0)
    leadership.refused(leadership.term, Refusal.REFUSED, 0.0)
    again = leadership.append(RECORDS, 0.0, 0)
    assert again is not None
    assert again.sequence == 1


def test_a_leader_of_a_long_time_claims_anew_before_it_writes():
    leadership = leading()
    now = RENEW_AFTER_S + 1
    assert leadership.append(RECORDS, now, 0) is None
    assert isinstance(leadership.command(now, mark, 0), Claim)


def test_outcomes_of_an_earlier_tenure_are_ignored():
    leadership = leading()
    term = leadership.term
    leadership.append(RECORDS, 0.0, 0)
    leadership.depose()
    leadership.elect(0.0)
    assert not leadership.appended(term, 21, 0.0)
    assert not leadership.refused(term, Refusal.FENCED, 0.0)
    leadership.claimed(term, 9, 9, 0.0)
    leadership.claim_failed(term, 0.0)
    assert leadership.stage is Stage.CLAIMING


def test_a_claim_that_failed_is_made_again():
    leadership = Leadership(WAIT_S)
    leadership.elect(0.0)
    leadership.command(0.0, mark, 0)
    leadership.claim_failed(leadership.term, 0.0)
    assert leadership.due_at == RETRY_PAUSE_S
    assert leadership.command(RETRY_PAUSE_S, mark, 0) == Claim(leadership.term)


APPEND = Append(1, 7, 4, 0, RECORDS, 0)
LEASE = 100.0


def sent(command: Append | Claim = APPEND) -> CommandRunner:
    runner = CommandRunner()
    runner.take(command, 0.0)
    assert runner.to_send(0.0, LEASE) is command
    assert runner.to_send(0.0, LEASE) is None
    return runner


def test_a_command_is_sent_until_it_is_answered():
    runner = sent()
    runner.unanswered(APPEND, 0.0)
    again_at = runner.due_at()
    assert runner.to_send(again_at, LEASE) is APPEND
    outcome = runner.append_answered(APPEND, 0, 20, again_at)
    assert outcome is not None
    assert (outcome.base_offset, outcome.refusal) == (20, None)
    assert runner.to_send(50.0, LEASE) is None


def test_nothing_is_appended_without_a_lease():
    runner = CommandRunner()
    runner.take(APPEND, 0.0)
    assert runner.to_send(LEASE, LEASE) is None
    assert runner.to_send(LEASE + 1, 2 * LEASE) is APPEND


def refusal(code: int, *, after_silence: bool = False) -> Refusal | None:
    runner = sent()
    if after_silence:
        runner.unanswered(APPEND, 0.0)
        runner.to_send(50.0, LEASE)
    outcome = runner.append_answered(APPEND, code, -1, 50.0)
    return outcome.refusal if outcome is not None else None


def test_a_batch_that_may_be_stored_is_never_called_refused():
    fenced, too_large = Errors.INVALID_PRODUCER_EPOCH.code, Errors.MESSAGE_TOO_LARGE.code
    assert refusal(fenced) is Refusal.FENCED
    assert refusal(fenced, after_silence=True) is Refusal.FENCED_LATE
    assert refusal(too_large) is Refusal.REFUSED
    assert refusal(too_large, after_silence=True) is Refusal.UNKNOWN
    assert refusal(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code) is Refusal.UNKNOWN
    assert refusal(Errors.DUPLICATE_SEQUENCE_NUMBER.code) is Refusal.UNKNOWN


def test_a_batch_that_only_its_leader_has_is_sent_again():
    runner = sent()
    assert runner.append_answered(APPEND, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code, -1, 0.0) is None
    assert runner.to_send(50.0, LEASE) is APPEND
    outcome = runner.append_answered(APPEND, Errors.INVALID_PRODUCER_EPOCH.code, -1, 50.0)
    assert outcome is not None
    assert outcome.refusal is Refusal.FENCED_LATE


def test_a_later_command_replaces_one_that_is_not_over():
    runner = sent()
    claim = Claim(2)
    runner.take(claim, 0.0)
    assert runner.append_answered(APPEND, 0, 20, 0.0) is None
    assert runner.to_send(0.0, LEASE) is claim
    outcome = runner.claim_answered(claim, 0, 7, 5, 0.0)
    assert outcome is not None
    assert (outcome.producer_id, outcome.epoch) == (7, 5)


def test_a_claim_fails_only_for_good_reasons():
    claim = Claim(1)
    runner = sent(claim)
    assert runner.claim_answered(claim, Errors.NOT_COORDINATOR.code, -1, -1, 0.0) is None
    runner.to_send(50.0, LEASE)
    denied = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code
    outcome = runner.claim_answered(claim, denied, -1, -1, 50.0)
    assert outcome is not None
    assert outcome.error is not None
