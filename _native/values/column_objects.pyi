from collections.abc import Callable
from typing import Any, Self

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.values.decoder import Decoder

ObjectPlan = tuple[int, int, str, Callable[[Any], Any] | None, list[Any]]

class ColumnObjects(ObjectDecoder):
    def __new__(
        cls, decoder: Decoder, plan: ObjectPlan, learn: Callable[[int], None] | None = None
    ) -> Self: ...
