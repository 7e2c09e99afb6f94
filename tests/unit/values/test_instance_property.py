"""Objects of random classes come back equal: encode_value() and the decoder of poll()."""

import dataclasses
import datetime
import decimal
import enum
import threading
import uuid
from typing import Annotated, Literal

import msgspec
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring import Avro, Json


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 9


@dataclasses.dataclass
class Leaf:
    text: str
    number: int | None = None


LEAVES = st.builds(
    Leaf, st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.integers(-(2**63), 2**63 - 1)
)
MONEY = Annotated[decimal.Decimal, pa.decimal128(12, 2)]
LEAF_TYPES = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(st.characters(exclude_categories=["Cs"])),
    bytes: st.binary(),
    MONEY: st.decimals(-(10**10) + 1, 10**10 - 1, places=2),
    datetime.datetime: st.datetimes(timezones=st.just(datetime.UTC)),
    datetime.date: st.dates(),
    datetime.time: st.times(),
    uuid.UUID: st.uuids(),
    Color: st.sampled_from(Color),
    Size: st.sampled_from(Size),
    Literal["new", "old"]: st.sampled_from(["new", "old"]),
    Leaf: LEAVES,
}


def wrapped(kind):
    of, values = kind
    keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
    return st.sampled_from(
        [
            (of | None if not isinstance(of, str) else of, st.none() | values),
            (list[of], st.lists(values, max_size=3)),
            (dict[str, of], st.dictionaries(keys, values, max_size=3)),
            (tuple[of, ...], st.lists(values, max_size=3).map(tuple)),
        ]
    )


FIELDS = st.recursive(
    st.sampled_from(list(LEAF_TYPES.items())), lambda inner: inner.flatmap(wrapped), max_leaves=4
)


def dataclass_of(fields):
    return dataclasses.make_dataclass("Made", [(name, of) for name, (of, _) in fields.items()])


def struct_of(fields):
    return msgspec.defstruct("Made", [(name, of) for name, (of, _) in fields.items()], rename="camel")


def model_of(fields):
    return pydantic.create_model("Made", **{name: (of, ...) for name, (of, _) in fields.items()})


@pytest.mark.parametrize("format_of", [Json, Avro])
@pytest.mark.parametrize("class_of", [dataclass_of, struct_of, model_of])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_random_object_comes_back(format_of, class_of, data):
    fields = data.draw(st.dictionaries(st.sampled_from(["a", "b_c", "d"]), FIELDS, min_size=1))
    cls = class_of(fields)
    form = format_of(cls)
    decoder = form.object_decoder()
    for _ in range(3):
        value = cls(**{name: data.draw(values) for name, (_, values) in fields.items()})
        found = decoder(form.encode_value(value))
        assert found == value, getattr(found, "reason", None)


@dataclasses.dataclass
class Inner:
    name: str
    count: int = 1


@dataclasses.dataclass
class Deep:
    many: list[dict[str, Inner]]
    named: dict[str, list[Inner | None]]
    note: Annotated[str | None, "a note"]


def test_defaults_at_any_depth():
    data = b'{"many":[{"k":{"name":"a","count":null}}],"named":{"x":[null,{"name":"b"}]},"note":null}'
    assert Json(Deep).object_decoder()(data) == Deep([{"k": Inner("a")}], {"x": [None, Inner("b")]}, None)


def test_threads_share_a_format():
    form = Json(Leaf)
    wrong = []

    def run(start):
        decoder = form.object_decoder()
        for number in range(start, start + 2000):
            value = Leaf(f"{number}" * 5, number)
            if decoder(form.encode_value(value)) != value:
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(i * 10_000,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
