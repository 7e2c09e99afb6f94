from typing import Any

from bowstring._native.value_column import Description
from bowstring._native.value_decoder import Decoder

FieldPlan = tuple[int, int, int, bool, bool, str, bool, list[tuple[int, bytes]], list[int], list[Any] | None]

class ProtobufDecoder(Decoder):
    def __init__(
        self, columns: Description, framed: bool, plan: list[FieldPlan], message_indexes: tuple[int, ...]
    ) -> None: ...
