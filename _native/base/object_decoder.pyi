from typing import Any

class Undecodable:
    reason: str
    def __init__(self, reason: str) -> None: ...

class ObjectDecoder:
    def __call__(self, value: bytes) -> Any: ...
