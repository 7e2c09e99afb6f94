from typing import Any

from bowstring._native.value_column import Description
from bowstring._native.value_decoder import Decoder

Plan = tuple[int, bytes, str, int, int, int, int, int, bool, list[Any]]

class JsonDecoder(Decoder):
    def __init__(self, columns: Description, framed: bool, plan: Plan) -> None: ...
