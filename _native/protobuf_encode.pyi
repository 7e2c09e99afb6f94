from typing import Any

from bowstring._native.value_source import Sources

FieldEncodePlan = tuple[
    int, int, int, bool, bool, bool, bool, bool, str, list[tuple[int, bytes]], list[Any] | None
]

class ProtobufEncoder:
    def __init__(self, plan: list[FieldEncodePlan], prefix: bytes) -> None: ...
    def encode(self, columns: Sources) -> tuple[Any, Any, str | None]: ...
