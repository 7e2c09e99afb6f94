from collections.abc import Iterable

class Aborted:
    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None: ...
