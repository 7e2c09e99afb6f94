from typing import Any

from bowstring._native.value_source import Sources

class Encoder:
    def __init__(self, prefix: bytes, *rest: Any) -> None: ...
    def encode(self, columns: Sources) -> tuple[Any, Any, str | None]: ...
