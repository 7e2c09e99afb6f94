from typing import Any

Description = tuple[int, int, bool, bytes | None, list[Any]]
Finished = tuple[int, int, list[Any], list[Any]]

class Columns:
    def __init__(self, description: Description) -> None: ...
    def finish(self, rows: int) -> Finished: ...

class Input:
    def __init__(
        self,
        owner: object,
        layout: int,
        first: int,
        count: int,
        validity: int,
        offsets: int,
        data: int,
        buffers: list[int],
    ) -> None: ...
