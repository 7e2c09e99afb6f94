"""Where values go that do not decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from bowstring.clients.producer import Producer


@dataclass(frozen=True)
class DeadLetter:
    """Sends values that do not decode to a topic: key and value as they were, and in headers what is known.

    Headers: `__error` (what is wrong), `__topic`, `__partition` and `__offset` (where the record was, as
    text). They are sent before the batch is handed out; `producer.flush()` waits for them.

    Args:
        topic: the dead-letter topic.
        producer: an open Producer; it is not closed here.

    Example:
        >>> bad = DeadLetter("orders.bad", producer)
        >>> orders = bowstring.Json(schema, on_error=bad)
    """

    topic: str
    producer: Producer

    def send(self, batch: pa.RecordBatch, errors: pa.StringArray) -> int:
        """Sends the records that have an error, from a batch with the column value, and
        key, topic, partition and offset if it has them.

        Returns:
            how many they are.
        """
        rows = errors.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
        columns = {name: batch.column(name) for name in batch.schema.names}
        for row in rows.tolist():
            headers = [("__error", errors[row].as_py().encode())]
            for name in ("topic", "partition", "offset"):
                if name in columns:
                    headers.append((f"__{name}", str(columns[name][row].as_py()).encode()))
            key = columns["key"][row].as_py() if "key" in columns else None
            self.producer.send(self.topic, columns["value"][row].as_py(), key=key, headers=headers)
        return len(rows)
