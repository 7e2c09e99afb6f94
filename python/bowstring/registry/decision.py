"""What a write comes to: records, and the answer once they are committed."""

from __future__ import annotations

from typing import Any, NamedTuple


class Decision(NamedTuple):
    """The outcome of a `decide_…` function.

    Attributes:
        records: Keys and values to append in this order, all or none of them; without any, the answer stands
            without a write.
        answer: What the request is answered with, as JSON takes it.
    """

    records: tuple[tuple[bytes, bytes | None], ...]
    answer: Any
