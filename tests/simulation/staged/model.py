"""The plain model of a log: a list of batches, and checks that a log is like it."""

from dataclasses import dataclass, field

from bowstring._native.log.partition_log import LogError, PartitionLog
from tests.support.log_batches import NOW_MS, Header, batch, headers

OUT_OF_ORDER_SEQUENCE_NUMBER = 45


@dataclass(frozen=True)
class Put:
    """An appended batch; `data` is as the producer sent it."""

    base: int
    last: int
    data: bytes
    timestamps: tuple[int, ...]
    producer: int = -1
    sequence: int = -1

    @property
    def body(self) -> bytes:
        """All that the log does not assign."""
        return self.data[17:]


@dataclass
class Model:
    """What a log has.

    Attributes:
        start: The log start offset; the batches before it may be gone.
        sequences: The next one of each producer.
    """

    puts: list[Put] = field(default_factory=list)
    start: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.puts[-1].last + 1 if self.puts else 0

    def readable(self) -> list[Put]:
        """The batches from the log start on."""
        return [put for put in self.puts if put.last >= self.start]

    def add(self, put: Put) -> None:
        """An append was acknowledged."""
        assert put.base == self.end
        self.puts.append(put)
        if put.producer >= 0:
            self.sequences[put.producer] = put.sequence + put.last - put.base + 1

    def truncate(self, offset: int) -> None:
        """Cuts the log, at the begin of the batch that has the offset."""
        self.puts = [put for put in self.puts if put.last < offset]
        self.start = min(self.start, self.end)

    def truncated_to(self, end: int) -> "Model":
        """A copy that is cut."""
        other = Model(list(self.puts), self.start, dict(self.sequences))
        other.truncate(end)
        return other

    def take_sequences(self, log: PartitionLog) -> None:
        """Continues where the log's producers are. Those that have a batch must be where it ends."""
        known = {each[0]: each[2] + 1 for each in log.active_producers()}
        newest = {put.producer: put for put in self.readable() if put.producer >= 0}
        for producer, put in newest.items():
            expected = put.sequence + put.last - put.base + 1
            assert known.get(producer) == expected, f"{log!r}: producer {producer} at {known}, not {expected}"
        self.sequences = known

    # ------------------------------------------------------------ the log beside it

    def check_all(self, log: PartitionLog) -> None:
        """Every batch is there, once and in order; duplicates are answered, and gaps refused."""
        assert not log.failed
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end), f"{log!r}"
        self.check_read(log, self.start, 1 << 16)
        newest = {put.producer: put for put in self.readable() if put.producer >= 0}
        for put in newest.values():
            found = log.append(put.data, 0, NOW_MS)
            assert found == put.base, f"{log!r} took the batch of {put.base} again, at {found}"
            gap = batch([b"gap"], producer_id=put.producer, epoch=0, sequence=put.sequence + put.last - put.base + 2)  # fmt: skip
            try:
                log.append(gap, 0, NOW_MS)
            except LogError as error:
                assert error.code == OUT_OF_ORDER_SEQUENCE_NUMBER
            else:
                raise AssertionError("a gap was taken")
        assert log.log_end_offset == self.end

    def check_read(self, log: PartitionLog, offset: int, max_bytes: int) -> None:
        """Reads from an offset to the end."""
        expected = [put for put in self.readable() if put.last >= offset]
        while expected:
            found = headers(log.read(offset, max_bytes, "log_end"))
            assert found, f"nothing at {offset} of {log!r}"
            for header, put in zip(found, expected, strict=False):
                assert _same(header, put), f"{header.base_offset} of {log!r}, where {put.base} should be"
            offset = found[-1].last_offset + 1
            expected = expected[len(found) :]
        assert offset >= self.end

    def check_search(self, log: PartitionLog, timestamp: int) -> None:
        """Finds the first record at or after a timestamp."""
        records = (
            (at, put.base + i)
            for put in self.readable()
            for i, at in enumerate(put.timestamps)
            if put.base + i >= self.start
        )
        wanted = next((record for record in records if record[0] >= timestamp), None)
        found = log.offset_for_timestamp(timestamp)
        assert (found[:2] if found else None) == wanted, f"timestamp {timestamp} in {log!r}"


def _same(header: Header, put: Put) -> bool:
    return (header.base_offset, header.last_offset) == (put.base, put.last) and header.data[17:] == put.body
