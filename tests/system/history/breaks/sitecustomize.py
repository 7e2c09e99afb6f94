"""Makes a broker wrong on purpose: Python imports this in a broker's process that has its folder in PYTHONPATH.

BOWSTRING_BREAK names the broken part.
"""

import os
import random
from dataclasses import replace
from typing import Any

from bowstring.engine.groups.offsets.store import OffsetStore
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.transactions import ending
from bowstring.engine.transactions.marker_writer import Marker, MarkerWriter
from bowstring.engine.transactions.transaction import Transaction
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.end_txn import EndTxnResponse

LUCK = random.Random(1)


def drop_marker() -> None:
    """Some markers of records are not written, and count as written."""
    right = MarkerWriter.write

    async def write(self, marker, partitions):
        wanted = list(partitions)
        left = [each for each in wanted if each[0] == GROUPS_TOPIC or LUCK.random() < 0.9]
        return dict.fromkeys(wanted, Errors.NONE) | await right(self, marker, left)

    writer: Any = MarkerWriter
    writer.write = write


def early_end() -> None:
    """EndTxn is sometimes answered, and nothing is written."""
    right = ending.end

    def end(state, request, new_id, token, now_ms):
        if LUCK.random() < 0.1:
            entry = state.entries.get(request.transactional_id)
            state.respond(
                token, EndTxnResponse(producer_id=entry.committed.producer_id, producer_epoch=request.epoch)
            )
        else:
            right(state, request, new_id, token, now_ms)

    module: Any = ending
    module.end = end


def commits_aborted() -> None:
    """Some markers of aborted transactions say that they are committed."""
    marker: Any = Marker
    right = Marker.batch
    marker.batch = lambda self, now_ms: right(
        self._replace(commit=self.commit or LUCK.random() < 0.5), now_ms
    )


def offsets_of_aborted() -> None:
    """Offsets of aborted transactions count."""
    store: Any = OffsetStore
    right = OffsetStore.end_transaction
    store.end_transaction = lambda self, producer, *, commit: right(self, producer, commit=True)


def no_partitions() -> None:
    """The coordinator forgets a partition of some transactions."""
    right = Transaction.with_partitions

    def with_partitions(self, partitions, version, now_ms):
        made = right(self, partitions, version, now_ms)
        kept = sorted(made.partitions)
        return replace(made, partitions=frozenset(kept[:1] if LUCK.random() < 0.2 else kept))

    transaction: Any = Transaction
    transaction.with_partitions = with_partitions


BREAKS = {each.__name__: each for each in (drop_marker, early_end, commits_aborted, offsets_of_aborted)}
BREAKS["no_partitions"] = no_partitions

if name := os.environ.get("BOWSTRING_BREAK"):
    BREAKS[name]()
