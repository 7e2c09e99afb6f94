"""What readers of one partition between two offsets share, whichever way the records come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_TIMEOUT_MS = 60_000


def check_range(partition: TopicPartition, start: int, end: int) -> None:
    """Refuses a range of offsets that is none.

    Raises:
        ConfigError: it begins below 0, or ends before it begins.
    """
    if start < 0 or end < start:
        raise ConfigError(f"{partition}: there is no range from offset {start} to {end}")


class PartitionReader(ABC):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    Args:
        bootstrap: `host:port,host:port`, or a list of them.
        topic, partition: what to read.
        start: first offset.
        end: the offset to stop before.
        columns: names out of arrow_columns.COLUMNS; None for all. The others are not decoded.
        isolation_level: "read_uncommitted" or "read_committed".
        layout: "binary" or "binary_view", see `Consumer.poll_arrow`.
        timestamp_unit: "ms" or "us".
        max_batch_rows: most rows of a batch.
        configs: of the way the records come.

    Attributes:
        schema: of the batches.

    Raises:
        ConfigError, MissingPackageError: an argument makes no sense, pyarrow is missing.
        ClientError: from iterating, and again from every further `next`.
    """

    schema: pa.Schema

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        topic: str,
        partition: int,
        start: int,
        end: int,
        columns: Iterable[str] | None = None,
        isolation_level: str = "read_uncommitted",
        layout: str = "binary",
        timestamp_unit: str = "ms",
        max_batch_rows: int = 65536,
        **configs: Any,
    ):
        self._partition = TopicPartition(topic, partition)
        check_range(self._partition, start, end)
        self._start = start
        self._end = end
        self._rows_max = max_batch_rows
        self._error: ClientError | None = None
        form: dict[str, Any] = {
            "columns": None if columns is None else tuple(columns),
            "layout": layout,
            "timestamp_unit": timestamp_unit,
        }
        self._batches = self._open(bootstrap, form, {"isolation_level": isolation_level, **configs})

    @abstractmethod
    def _open(
        self, bootstrap: str | Iterable[str], form: dict[str, Any], configs: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Sets `schema` and gives the batches; when it fails, nothing stays open."""

    @property
    @abstractmethod
    def position(self) -> int:
        """Offset of the next record to be read."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connections; batches that were handed out stay. Twice does no harm."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._error is not None:
            raise self._error  # an iteration that failed has not come to its end
        try:
            return next(self._batches)
        except ClientError as error:
            self._error = error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
