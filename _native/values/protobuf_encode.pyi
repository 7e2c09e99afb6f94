from typing import Any, Self

from bowstring._native.values.encoder import Encoder

FieldEncodePlan = tuple[
    int, int, int, bool, bool, bool, bool, bool, str, list[tuple[int, bytes]], list[Any] | None
]

class ProtobufEncoder(Encoder):
    def __new__(cls, prefix: bytes, plan: list[FieldEncodePlan]) -> Self: ...
