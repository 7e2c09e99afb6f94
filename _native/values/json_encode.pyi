from typing import Any, Self

from bowstring._native.values.encoder import Encoder

EncodePlan = tuple[int, bytes, bool, int, int, bool, list[Any]]

class JsonEncoder(Encoder):
    def __new__(cls, prefix: bytes, plan: EncodePlan, nulls: bool) -> Self: ...
