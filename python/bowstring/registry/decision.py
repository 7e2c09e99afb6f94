"""What a write comes to: records, and the answer once they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bowstring.registry.schema_record import SchemaRecord


class Decision(NamedTuple):
    """The outcome of a `decide_…` function.

    Attributes:
        records: Keys and values to append in this order, all or none of them; without any, the answer stands
            without a write.
        answer: What the request is answered with, as JSON takes it.
        added: The new version of a subject that is all the records say; None: they say more, or something
            else. Further decisions can go into the same batch.
    """

    records: tuple[tuple[bytes, bytes | None], ...]
    answer: Any
    added: SchemaRecord | None = None
