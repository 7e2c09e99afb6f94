from typing import Any, Self

from bowstring._native.values.column import Description
from bowstring._native.values.decoder import Decoder

Plan = tuple[int, bytes, str, int, int, int, int, int, bool, list[Any]]

class JsonDecoder(Decoder):
    def __new__(cls, columns: Description, framed: bool, plan: Plan) -> Self: ...
