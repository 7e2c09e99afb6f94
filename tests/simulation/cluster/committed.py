"""The committed records of each partition, by the high watermarks of leaders: the reference of the rules."""

from typing import NamedTuple

from bowstring._native.record.decode import batch_headers, decode_batches


class Committed(NamedTuple):
    """A committed batch."""

    base: int
    end: int
    epoch: int
    data: bytes
    producer: int
    sequence: int


class CommittedLog:
    """The committed batches of a partition, in order."""

    def __init__(self):
        self.batches: list[Committed] = []
        self.data = b""
        # Goes up when committed batches were lost in the documented way.
        self.version = 0

    @property
    def end(self):
        return self.batches[-1].end if self.batches else 0

    def extend(self, data):
        """Adds batches that follow; returns them."""
        added = []
        for each in batch_headers(data):
            batch = data[each.position : each.position + each.size_bytes]
            added.append(
                Committed(
                    each.base_offset,
                    each.last_offset + 1,
                    each.leader_epoch,
                    batch,
                    each.producer_id,
                    each.base_sequence,
                )
            )
        self.batches += added
        self.data += data
        return added

    def first_missing(self, data, end=None):
        """The first committed batch that a log, given as bytes, lacks; None when it has all (below an end)."""
        wanted = self.data if end is None else b"".join(each.data for each in self.batches if each.end <= end)
        if data[: len(wanted)] == wanted:
            return None
        at = 0
        for batch in self.batches:
            if data[at : at + len(batch.data)] != batch.data:
                return batch
            at += len(batch.data)
        return None

    def forget_from(self, offset):
        """Batches from an offset on were lost in the documented way."""
        self.batches = [each for each in self.batches if each.end <= offset]
        self.data = b"".join(each.data for each in self.batches)
        self.version += 1

    def values(self):
        """The values of all committed records, in order."""
        return [each.value for each in decode_batches(self.data)] if self.data else []
