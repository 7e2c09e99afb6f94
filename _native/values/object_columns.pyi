from typing import Any, Self

from bowstring._native.values.encoder import Encoder

ObjectDescription = tuple[int, int, int, int, int, int, bool, bool, str, str, str, str, list[Any]]

class ObjectFault(Exception): ...

class ObjectEncoder:
    def __new__(cls, encoder: Encoder, description: ObjectDescription) -> Self: ...
    def encode(self, value: object) -> bytes: ...
