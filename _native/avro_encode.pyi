from typing import Any

from bowstring._native.value_encoder import Encoder

AvroEncodePlan = tuple[int, int, str, int, int, list[bytes], list[int], list[Any]]

class AvroEncoder(Encoder):
    def __init__(self, prefix: bytes, plan: AvroEncodePlan) -> None: ...
