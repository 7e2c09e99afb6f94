from typing import Any, Self

from bowstring._native.values.column import Description
from bowstring._native.values.decoder import Decoder

FieldPlan = tuple[int, int, int, bool, bool, str, bool, list[tuple[int, bytes]], list[int], list[Any] | None]

class ProtobufDecoder(Decoder):
    def __new__(
        cls, columns: Description, framed: bool, plan: list[FieldPlan], message_indexes: tuple[int, ...]
    ) -> Self: ...
