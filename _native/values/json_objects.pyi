from typing import Self

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.values.column import Input
from bowstring._native.values.column_objects import ColumnObjects, ObjectPlan
from bowstring._native.values.json_decode import JsonDecoder

class JsonObjects(ColumnObjects):
    def __new__(cls, decoder: JsonDecoder, plan: ObjectPlan) -> Self: ...

class AnyJsonObjects(ObjectDecoder):
    def __new__(cls, framed: bool) -> Self: ...

class TextObjects(ObjectDecoder): ...

def text_faults(values: Input) -> list[tuple[int, str]]: ...
