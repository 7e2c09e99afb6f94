from typing import Any

from bowstring._native.value_column import Description, Finished, Input

Plan = tuple[int, bytes, str, int, int, int, int, int, bool, list[Any]]

class JsonDecoder:
    def __init__(self, columns: Description, plan: Plan, framed: bool) -> None: ...
    def decode(self, values: Input) -> tuple[Finished, list[tuple[int, str]]]: ...
