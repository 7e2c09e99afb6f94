from typing import Any

from bowstring._native.value_source import Sources

EncodePlan = tuple[int, bytes, bool, int, int, bool, list[Any]]

class JsonEncoder:
    def __init__(self, plan: EncodePlan, nulls: bool, prefix: bytes) -> None: ...
    def encode(self, columns: Sources) -> tuple[Any, Any]: ...
