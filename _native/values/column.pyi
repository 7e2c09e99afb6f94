from typing import Any, Self

Description = tuple[int, int, bool, bytes | None, list[Any]]
Finished = tuple[int, int, list[Any], list[Any]]

class Columns:
    def __new__(cls, description: Description) -> Self: ...
    def finish(self, rows: int) -> Finished: ...

class Input:
    def __new__(
        cls,
        owner: object,
        layout: int,
        first: int,
        count: int,
        validity: int,
        offsets: int,
        data: int,
        buffers: list[int],
        skip: int = 0,
    ) -> Self: ...
