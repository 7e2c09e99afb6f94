"""Loss of power: bytes that a node's files had and the medium did not are gone, or there in part."""

import os
from pathlib import Path

from tests.simulation.nodes.invariants import Rule

SEGMENTS = "*.log"
OFFSET_BYTES, HEAD_BYTES = 8, 12
FEWEST_BYTES = 61


class Medium:
    """The durable part of a node's logs. Take it while the node runs, use it once its files are closed.

    In os mode that is the flushed data; the simulation cuts power in commit mode only, where more must be
    there.
    """

    def __init__(self, broker):
        self._logs: list[tuple[Path, int]] = []
        quorum = broker.quorum
        if quorum is not None and quorum._is_open:
            self._logs.append((Path(quorum._log.path), quorum._log.synced_end.offset))
        for _, _, log in getattr(broker, "logs", ()):
            if log.in_commit_mode:
                self._logs.append((Path(log.directory), max(log.durable, log.recovery_point)))

    def cut(self, random):
        """Removes unsynced data from the files, all of it or from some byte on; returns the bytes lost."""
        return sum(_cut(path, offset, random) for path, offset in self._logs)


def _cut(path, offset, random):
    lost = 0
    for segment in sorted(path.glob(SEGMENTS)):
        data = segment.read_bytes()
        at = synced_bytes(data, offset)
        if at < len(data):
            # Written, unsynced data may have reached the medium by itself, a part of a batch, too.
            keep = random.choice([at, at, random.randrange(at, len(data) + 1)])
            os.truncate(segment, keep)
            lost += len(data) - keep
    return lost


def synced_bytes(data, offset):
    """Where the batches below an offset end in a segment."""
    at = 0
    while at + FEWEST_BYTES <= len(data):
        base = int.from_bytes(data[at : at + OFFSET_BYTES], "big")
        size = HEAD_BYTES + int.from_bytes(data[at + OFFSET_BYTES : at + HEAD_BYTES], "big")
        if base >= offset or size <= HEAD_BYTES:
            break
        at += size
    return at


class CommittedMetadataIsKept(Rule):
    """What one node has applied, each node applies, also after all have lost their power."""

    def __init__(self, world):
        super().__init__(world)
        self._epochs: dict[int, int] = {}

    def applied_to(self, node, end_offset, epoch):
        """A node has applied all records below an offset; the last one is of this epoch."""
        known = self._epochs.setdefault(end_offset, epoch)
        if known != epoch:
            self.fail(
                f"{node.name} applies a record of epoch {epoch} below {end_offset}, where one of {known} was"
            )
