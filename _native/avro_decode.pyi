from typing import Any

from bowstring._native.value_column import Description
from bowstring._native.value_decoder import Decoder

AvroPlan = tuple[int, int, int, str, int, int, bytes, list[bytes | None], list[Any]]

class AvroDecoder(Decoder):
    def __init__(self, columns: Description, framed: bool, any_id: bool) -> None: ...
    def add(self, schema_id: int, plan: AvroPlan) -> None: ...
