from typing import Any, Self

SourceDescription = tuple[int, int, int, int, int, int, list[Any]]

class Sources:
    rows: int
    def __new__(cls, owner: object, rows: int, description: SourceDescription) -> Self: ...

class Encoder:
    def __new__(cls, prefix: bytes, *rest: Any) -> Self: ...
    def encode(self, columns: Sources) -> tuple[Any, Any, str | None]: ...
