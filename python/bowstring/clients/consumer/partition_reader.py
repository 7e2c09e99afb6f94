"""Defines the common part of readers of one partition between two offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bowstring.clients.choices import IsolationLevel, Layout, TimestampUnit
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_TIMEOUT_MS = 60_000


def check_range(partition: TopicPartition, start: int, end: int) -> None:
    """Refuses an invalid range of offsets.

    Raises:
        ConfigError: the range begins below 0, or ends before it begins.
    """
    if start < 0 or end < start:
        raise ConfigError(f"{partition}: offset {start} to {end} is not a range")


class PartitionReader(ABC):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    Args:
        bootstrap: `host:port,host:port`, or a list of them.
        topic, partition: what to read.
        start: first offset.
        end: end offset, exclusive.
        columns: names from clients.arrow.arrow_format.COLUMNS; None for all. Other columns are not decoded.
        isolation_level: "read_uncommitted" or "read_committed".
        layout: "binary" or "binary_view", see `Consumer.poll_arrow`.
        timestamp_unit: "ms" or "us".
        max_batch_rows: most rows of a batch.
        configs: settings of the subclass.

    Attributes:
        schema: of the batches.

    Raises:
        ConfigError, MissingPackageError: an argument is invalid, or pyarrow is missing.
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
        isolation_level: IsolationLevel = "read_uncommitted",
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
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
        """Sets `schema` and returns the batches; leaves nothing open when it fails."""

    @property
    @abstractmethod
    def position(self) -> int:
        """Offset of the next record to read."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections; returned batches stay valid. May be called twice."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._error is not None:
            raise self._error  # a failed iteration is not at its end: raise again
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
