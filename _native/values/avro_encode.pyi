from typing import Any, Self

from bowstring._native.values.encoder import Encoder

AvroEncodePlan = tuple[int, int, str, int, int, list[bytes], list[int], list[Any]]

class AvroEncoder(Encoder):
    def __new__(cls, prefix: bytes, plan: AvroEncodePlan) -> Self: ...
