"""Faults of transactions, as in `faults`: patched into the shipped coordinators, or where the simulated plane calls."""

import asyncio
from dataclasses import replace

from bowstring.engine.coordinators import runtime
from bowstring.engine.coordinators.committed_appends import CommittedAppends
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.coordinators.runtime import CoordinatorRuntime, write_options
from bowstring.engine.groups.offsets.store import OffsetStore
from bowstring.engine.groups.replay import Replay
from bowstring.engine.transactions import ending, init, partitions
from bowstring.engine.transactions.marker_sender import MarkerSender
from bowstring.engine.transactions.service import TransactionCoordinatorService
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.state import ShardState
from bowstring.engine.transactions.transaction import Status, Transaction
from bowstring.engine.transactions.verifier import TransactionVerifier
from bowstring.protocol.errors import Errors
from tests.simulation.cluster.plane import NOT_VERIFIED, SimulatedPlane
from tests.simulation.cluster.services import wall_ms
from tests.simulation.quorum.faults import Fault, into

TRANSACTION_FAULTS: list[Fault] = []
_fault = into(TRANSACTION_FAULTS)
LEDGER = ("Ledger", "BecomesHealthy", "AnsweredIsKept", "CopiesAreWhole")
ODD = (*LEDGER, "MarkersFollowDecisions", "AnsweredIsDecided", "CommittedReadersSeeWhatIsCommitted")


def fault(what, *rules, first=1, **plan):
    return _fault(what, *rules, first=first, transactions=True, groups=False, shares=False, **plan)


# ---------------------------------------------------------------- the coordinator


@fault(
    "A transaction coordinator acts before its records are committed",
    *("AnsweredIsDecided", "MarkersFollowDecisions", "Ledger"),
)
def coordinator_acts_too_early(patches):
    def append(self, hosted, effect):
        for batch in self._encoded(effect, self.max_batch_bytes):
            error = self._appended(hosted, batch, self.max_batch_bytes, **write_options(effect))
        self._carry(hosted, hosted.shard.append_finished(effect.append_id, error, wall_ms()))

    patches.add(TransactionCoordinatorService, "_append", append)


@fault(
    "A coordinator that takes over sends markers of decisions that are not committed",
    "MarkersFollowDecisions",
    first=50,
)
def coordinator_begins_too_early(patches):
    patches.add(TransactionCoordinatorService, "_loaded_now", _begin_at_once)


def _begin_at_once(self, hosted):
    self._carry(hosted, hosted.shard.loaded(wall_ms()))


@fault("A transaction coordinator loads its partition up to the high watermark only", *ODD)
def transactions_loaded_too_little(patches):
    right = TransactionCoordinatorService._replay

    class Below:
        """A log up to its high watermark."""

        def __init__(self, log):
            self.log_start_offset, self.log_end_offset = log.log_start_offset, log.high_watermark
            self.read = lambda offset, most, limit: log.read(offset, most, "high_watermark")

    patches.set(
        TransactionCoordinatorService, "_replay", lambda self, log, *rest: right(self, Below(log), *rest)
    )
    patches.add(TransactionCoordinatorService, "_loaded_now", _begin_at_once)


@fault(
    "A coordinator that takes over does not go on with decided transactions",
    *("BecomesHealthy", "NoShellFails"),
)
def decided_forgotten(patches):
    def loaded(self, now_ms):
        self.loading = False
        return []

    patches.set(TransactionShard, "loaded", loaded)


@fault("A write of the coordinator whose outcome is unknown counts as failed", *ODD)
def unknown_is_failed(patches):
    right = CoordinatorRuntime._append

    def append(self, hosted, effect):
        right(self, hosted, effect)
        asyncio.get_running_loop().call_later(0.02, give_up, self, hosted, effect.append_id)

    def give_up(self, hosted, append_id):
        if not hosted.dismissed and append_id in hosted.shard.state.appends:
            hosted.waiting = type(hosted.waiting)(each for each in hosted.waiting if each.item != append_id)
            finished = hosted.shard.append_finished(append_id, Errors.REQUEST_TIMED_OUT, wall_ms())
            self._carry(hosted, finished)

    patches.add(TransactionCoordinatorService, "_append", append)


@fault("Partitions count as added before that is committed", *ODD)
def added_too_early(patches):
    def add(state, producer, added, token, now_ms, *, version):
        right(state, producer, added, object(), now_ms, version=version)
        first = state.outbox[-1] if state.outbox else None
        if isinstance(first, Respond):
            first.token = token
            return
        state.respond(token, Errors.NONE)

    right = partitions.add
    patches.set(runtime, "answer_request", _answered_if_asked(runtime.answer_request))
    patches.set(partitions, "add", add)


def _answered_if_asked(right):
    return lambda effect: right(effect) if isinstance(effect.token, asyncio.Future) else None


@fault("Transactions never time out", "BecomesHealthy")
def no_timeouts(patches):
    patches.set(TransactionShard, "timed_out", lambda self, now_ms: [])


@fault("A new producer gets the epoch of the one before", *ODD, "NoDuplicatesNoGaps", "NoShellFails")
def zombies_are_not_fenced(patches):
    right = Transaction.bumped

    def bumped(self, timeout_ms, expected_epoch, now_ms):
        made = right(self, timeout_ms, expected_epoch, now_ms)
        return made if made is None or self.epoch < 0 else replace(made, epoch=self.epoch)

    patches.set(Transaction, "bumped", bumped)


@fault(
    "InitProducerId leaves the transaction of the one before open", *ODD, "NoDuplicatesNoGaps", "NoShellFails"
)
def ongoing_is_left_open(patches):
    def fence(state, entry, new_id, token, now_ms):
        entry.committed = replace(entry.committed, status=Status.EMPTY, partitions=frozenset())
        state.respond(token, init.init_error(Errors.CONCURRENT_TRANSACTIONS))

    patches.set(init, "fence", fence)


@fault("The epoch of an EndTxn is not compared", *ODD, commit_mode=True, duplicate=0.2, slow=0.2, first=148)
def end_without_epoch(patches):
    right = ending._check_bumping

    def check(entry, request):
        ongoing = entry.pending is None and entry.committed.status is Status.ONGOING
        return None if ongoing else right(entry, request)

    patches.set(ending, "_check_bumping", check)


# ---------------------------------------------------------------- markers


@fault("A marker that is refused is not sent again", *ODD)
def refused_markers_are_forgotten(patches):
    right = MarkerSender._settle
    patches.set(
        MarkerSender,
        "_settle",
        lambda self, job, errors: right(self, job, dict.fromkeys(errors, Errors.NONE)),
    )


@fault("A marker is answered before it is committed", *ODD, first=50)
def marker_answered_too_early(patches):
    async def committed(self, key, log, offset, leader_epoch):
        return Errors.NONE

    patches.set(CommittedAppends, "_committed", committed)


@fault("Markers are sent to the first partition only", *ODD)
def markers_for_one(patches):
    right = ShardState.send_markers

    def send_markers(self, entry, now_ms):
        entry.committed = replace(
            entry.committed, partitions=frozenset(sorted(entry.committed.partitions)[:1])
        )
        right(self, entry, now_ms)

    patches.set(ShardState, "send_markers", send_markers)


# ---------------------------------------------------------------- checks of batches


@fault("Batches are not verified (before KIP-890)", *ODD)
def no_verification(patches):
    patches.set(SimulatedPlane, "verification", lambda self, log, request, adds: NOT_VERIFIED)


@fault("The verifier confirms without asking the coordinator", *ODD)
def verifier_asks_nobody(patches):
    async def verify(self, producer, wanted, *, adds):
        return dict.fromkeys(wanted, Errors.NONE)

    patches.set(TransactionVerifier, "verify", verify)


# ---------------------------------------------------------------- readers and offsets


@fault("Readers with read_committed get records of open transactions", "CommittedReadersSeeWhatIsCommitted")
def no_last_stable_offset(patches):
    patches.set(SimulatedPlane, "COMMITTED_LIMIT", "high_watermark")


@fault("A fetch does not name aborted transactions", "CommittedReadersSeeWhatIsCommitted", "CopiesAreWhole")
def aborted_are_not_named(patches):
    patches.set(SimulatedPlane, "aborted", lambda self, log, offset, data: ())


@fault("Offsets of an aborted transaction count", *ODD)
def aborted_offsets_count(patches):
    right = OffsetStore.end_transaction
    patches.set(
        OffsetStore, "end_transaction", lambda self, producer, *, commit: right(self, producer, commit=True)
    )


@fault("A group coordinator that takes over drops the offsets of committed transactions", *ODD)
def committed_offsets_dropped(patches):
    right = Replay.end_transaction
    patches.set(
        Replay, "end_transaction", lambda self, producer, *, commit: right(self, producer, commit=False)
    )
