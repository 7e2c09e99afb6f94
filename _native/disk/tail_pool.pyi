import os
from typing import Self

class TailMemory:
    path: str | None
    @property
    def taken_bytes(self) -> int: ...
    def __new__(
        cls,
        size_bytes: int,
        path: str | os.PathLike[str] | None = None,
        *,
        from_bytes: int = ...,
        rest_ms: int = ...,
    ) -> Self: ...
    def close(self) -> None: ...

def restore(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> int: ...
