from collections.abc import Callable
from typing import Any, Self

from bowstring._native.base.object_decoder import ObjectDecoder

class KeyedObjects(ObjectDecoder):
    def __new__(
        cls,
        find: Callable[[bytes], ObjectDecoder | str | None],
        header: bytes,
        lack: str,
        renew: Callable[[], bool] | None = None,
        every_s: float = 0.0,
    ) -> Self: ...

class CalledObjects(ObjectDecoder):
    def __new__(cls, make: Callable[[bytes], Any], explain: Callable[[Exception], str]) -> Self: ...
