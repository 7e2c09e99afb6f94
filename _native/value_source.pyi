from typing import Any

SourceDescription = tuple[int, int, int, int, int, int, list[Any]]

class Sources:
    rows: int
    def __init__(self, owner: object, rows: int, description: SourceDescription) -> None: ...
