from typing import Any

from bowstring._native.value_column import Description, Finished, Input

FieldPlan = tuple[int, int, int, bool, bool, str, bool, list[tuple[int, bytes]], list[int], list[Any] | None]

class ProtobufDecoder:
    def __init__(
        self, columns: Description, plan: list[FieldPlan], message_indexes: tuple[int, ...] | None
    ) -> None: ...
    def decode(self, values: Input) -> tuple[Finished, list[tuple[int, str]]]: ...
