from typing import Any

from bowstring._native.value_encoder import Encoder

EncodePlan = tuple[int, bytes, bool, int, int, bool, list[Any]]

class JsonEncoder(Encoder):
    def __init__(self, prefix: bytes, plan: EncodePlan, nulls: bool) -> None: ...
