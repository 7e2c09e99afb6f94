from typing import Any

from bowstring._native.value_encoder import Encoder

FieldEncodePlan = tuple[
    int, int, int, bool, bool, bool, bool, bool, str, list[tuple[int, bytes]], list[Any] | None
]

class ProtobufEncoder(Encoder):
    def __init__(self, prefix: bytes, plan: list[FieldEncodePlan]) -> None: ...
