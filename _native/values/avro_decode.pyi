from typing import Any, Self

from bowstring._native.values.column import Description
from bowstring._native.values.decoder import Decoder

AvroPlan = tuple[int, int, int, str, int, int, bytes, list[bytes | None], list[Any]]

class AvroDecoder(Decoder):
    def __new__(cls, columns: Description, framed: bool, any_id: bool) -> Self: ...
    def add(self, schema_id: int, plan: AvroPlan) -> None: ...
