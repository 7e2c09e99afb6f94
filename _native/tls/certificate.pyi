class Certificate:
    subject: str
    names: frozenset[str]
    valid_from_ms: int
    valid_until_ms: int
    def __init__(self, der: bytes) -> None: ...
