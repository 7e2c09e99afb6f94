from collections.abc import Callable
from typing import Any, Self

from bowstring._native.base.object_decoder import ObjectDecoder

class InstanceObjects(ObjectDecoder):
    def __new__(
        cls,
        decoder: ObjectDecoder,
        make: Callable[[dict[str, Any]], Any],
        explain: Callable[[Exception], str],
    ) -> Self: ...
