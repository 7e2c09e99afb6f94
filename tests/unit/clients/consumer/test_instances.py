"""Consumers whose format's schema is a class: poll gives its instances; what the class refuses is undecodable."""

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import msgspec
import pydantic
import pytest

import bowstring
from bowstring import TopicPartition
from tests.support.waiting import HANG_S


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Plain:
    id: int
    lines: list[Line]


class Typed(TypedDict):
    id: int
    note: NotRequired[str]


class Struct(msgspec.Struct, rename="camel"):
    order_id: int
    first_line: Line | None = None


class Model(pydantic.BaseModel):
    id: int = pydantic.Field(ge=0)
    name: str = pydantic.Field(default="none", alias="fullName")

    @pydantic.field_validator("name")
    @classmethod
    def is_short(cls, name: str) -> str:
        if len(name) > 5:
            raise ValueError("too long")
        return name


@dataclass
class Checked:
    id: int

    def __post_init__(self):
        if self.id < 0:
            raise ValueError(f"id {self.id} is below 0")


VALUES = {
    "plain": Plain(1, [Line("apple", 2), Line("pear")]),
    "typed": Typed(id=1),
    "struct": Struct(3, Line("apple")),
    "model": Model(id=1, fullName="Ada"),
}


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


def reader(servers, topic, form, **settings):
    consumer = bowstring.Consumer(servers, auto_offset_reset="earliest", value=form, **settings)
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


@pytest.mark.parametrize("format_of", [bowstring.Json, bowstring.Avro])
@pytest.mark.parametrize("name", VALUES)
def test_a_sent_object_comes_back_as_it_was(servers, name, format_of):
    value, topic = VALUES[name], f"{name}-{format_of.__name__}"
    form = format_of(Typed if isinstance(value, dict) else type(value))
    with bowstring.Producer(servers, value=form) as producer:
        producer.send(topic, value, partition=0)
        producer.send(topic, None, partition=0).result(HANG_S)
    with reader(servers, topic, form) as consumer:
        records = consumer.poll(HANG_S)
        assert [record.value for record in records] == [value, None]
        assert type(records[0].value) is type(value)
        consumer.seek(TopicPartition(topic, 0), 0)
        assert consumer.poll_arrow(HANG_S).column("value_error").null_count == 2


def test_what_the_class_refuses_is_undecodable(servers):
    values = [b'{"id":-1,"fullName":"Augusta"}', b'{"id":1}', b'{"id":-2}']
    with bowstring.Producer(servers) as producer:
        for value in values:
            producer.send("refused", value, partition=0)
        producer.flush()
        form = bowstring.Json(Model)
        with (
            reader(servers, "refused", form) as consumer,
            pytest.raises(bowstring.UndecodableRecordError) as caught,
        ):
            consumer.poll(HANG_S)
        assert caught.value.record.value == values[0]
        assert caught.value.reason == (
            "the class Model does not take it: id: Input should be greater than or equal to 0; "
            "fullName: Value error, too long"
        )
        letters = bowstring.DeadLetter("refused.bad", producer)
        with reader(servers, "refused", form, on_undecodable=letters) as consumer:
            assert [record.value for record in consumer.poll(HANG_S)] == [Model(id=1)]
            assert consumer.poll(0) == []
            assert consumer.undecodable_counts()["dead_lettered"] == 2


def test_an_error_of_a_dataclass_is_the_reason(servers):
    decoder = bowstring.Json(Checked).object_decoder()
    assert decoder(b'{"id":1}') == Checked(1)
    assert decoder(b'{"id":-1}').reason == "the class Checked does not take it: id -1 is below 0"
    assert decoder(b'{"id":"x"}').reason == "at byte 6: an integer is needed for id"
