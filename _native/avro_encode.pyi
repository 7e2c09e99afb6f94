from typing import Any

from bowstring._native.value_source import Sources

AvroEncodePlan = tuple[int, int, str, int, int, list[bytes], list[int], list[Any]]

class AvroEncoder:
    def __init__(self, plan: AvroEncodePlan, prefix: bytes) -> None: ...
    def encode(self, columns: Sources) -> tuple[Any, Any, str | None]: ...
