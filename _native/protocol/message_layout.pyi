from typing import Any, TypeVar

S = TypeVar("S", bound=StructBase)

KINDS: tuple[str, ...]

class ProtocolError(ValueError):
    message: str
    version: int
    field: str
    offset: int
    reason: str
    def __init__(self, message: str, version: int, field: str, offset: int, reason: str) -> None: ...

class Layout:
    name: str
    fields: tuple[Any, ...]
    versions: tuple[int, int]
    flexible: tuple[int, int]
    def __init__(
        self, name: str, fields: tuple[Any, ...], versions: tuple[int, int], flexible: tuple[int, int]
    ) -> None: ...

class StructBase:
    unknown_tags: dict[int, bytes] | None
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self) -> str: ...

def rebuild(cls: type[S], values: dict[str, Any], unknown_tags: dict[int, bytes] | None) -> S: ...
