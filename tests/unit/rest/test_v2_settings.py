"""What requests of the REST proxy's v2 API name: types of answers, and settings of consumer instances."""

import pytest

from bowstring.rest.options import RestOptions
from bowstring.rest.v2 import media_types
from bowstring.rest.v2.consumer_settings import consumer_settings, read_limits
from bowstring.web.http_error import HttpError

OPTIONS = RestOptions(schema_registry="http://localhost:8081")
PLAIN = media_types.PLAIN
AVRO = media_types.embedded("avro")


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html, application/*;q=0.1", PLAIN),
        ("application/json", "application/json"),
        (f"application/json;q=0.5, {AVRO};q=0.6", AVRO),
        (f"{AVRO};q=0, application/json;q=x", "application/json"),
        ("," * 10_000 + PLAIN, 406),
        ("text/html", 406),
        ("", PLAIN),
    ],
)
def test_types_of_answers_without_records(accept, given):
    if given == 406:
        with pytest.raises(HttpError) as refused:
            media_types.answer_type(accept)
        assert refused.value.code == 406
    else:
        assert media_types.answer_type(accept) == given


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", AVRO),
        (PLAIN, PLAIN),
        ("application/vnd.kafka.json.v2+json, */*;q=0.1", AVRO),
        (AVRO, AVRO),
        ("application/vnd.kafka.json.v2+json", 40601),
        ("text/html", 406),
    ],
)
def test_types_of_answers_with_records(accept, given):
    if isinstance(given, int):
        with pytest.raises(HttpError) as refused:
            media_types.record_type(accept, "avro")
        assert (refused.value.status, refused.value.code) == (406, given)
    else:
        assert media_types.record_type(accept, "avro") == given


def test_settings_by_all_their_names():
    found = consumer_settings(
        {
            "id": "i",
            "name": "n",
            "format": "AVRO",
            "auto.offset.reset": "Earliest",
            "auto.commit.enable": "false",
            "responseMinBytes": "-1",
            "consumer.request.timeout.ms": "2500",
            "topic.metadata.refresh.interval.ms": 1000,
        },
        OPTIONS,
    )
    assert found == ("i", "avro", "earliest", False, 0, 2.5, 1000)
    plain = consumer_settings({"name": None}, OPTIONS)
    assert plain[1:] == ("binary", "latest", True, 0, 1.0, None)
    assert plain.name != consumer_settings({}, OPTIONS).name


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"fetch.max.bites": 1}, 42204),
        ({"name": ""}, 42204),
        ({"name": "x" * 256}, 42204),
        ({"id": 7}, 42204),
        ({"format": "xml"}, 422),
        ({"auto.offset.reset": "middle"}, 42204),
        ({"auto.commit.enable": "maybe"}, 42204),
        ({"fetch.min.bytes": 10_000_001}, 40001),
        ({"fetch.min.bytes": True}, 40001),
        ({"consumer.request.timeout.ms": "1e3"}, 40001),
    ],
)
def test_refused_settings(given, code):
    with pytest.raises(HttpError) as refused:
        consumer_settings(given, OPTIONS)
    assert (refused.value.status, refused.value.code) == (422, code)


def test_formats_with_schemas_need_a_registry():
    with pytest.raises(HttpError, match="registry"):
        consumer_settings({"format": "avro"}, RestOptions())


def test_limits_of_a_read():
    settings = consumer_settings({"fetch.min.bytes": 5}, OPTIONS)
    most = OPTIONS.consumer_bytes_max
    assert read_limits({}, settings, OPTIONS) == (1.0, most)
    assert read_limits({"timeout": "-1", "max_bytes": "-1"}, settings, OPTIONS) == (1.0, most)
    assert read_limits({"timeout": "250", "max_bytes": "9"}, settings, OPTIONS) == (0.25, 9)
    assert read_limits({"timeout": "9" * 15, "max_bytes": "9" * 15}, settings, OPTIONS) == (30.0, most)
    with pytest.raises(HttpError):
        read_limits({"timeout": "soon"}, settings, OPTIONS)
