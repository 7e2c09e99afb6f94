import copy
from pathlib import Path

import pytest

from bowstring.pipeline.declaration import PipelineError, declared, load

SOUND = {
    "name": "hourly",
    "checkpoint": "checkpoint",
    "source": {
        "flights": {
            "topics": ["flights"],
            "format": "json",
            "schema": "carrier STRING, time_hour STRING",
            "watermark": {"on": "to_timestamp(time_hour)", "delay": "1 hour"},
        }
    },
    "view": {"hours": {"sql": "SELECT carrier FROM flights"}},
    "sink": {"out": {"from": "hours", "topic": "hours", "key": "carrier"}},
}


def with_change(path, value):
    table = copy.deepcopy(SOUND)
    inner = table
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return table


def test_a_sound_declaration():
    pipeline = declared(SOUND)
    assert pipeline.sink["out"].origin == "hours" and pipeline.sink["out"].kinds == ["topic"]
    assert pipeline.source["flights"].watermark.column == "event_time"
    assert pipeline.servers(pipeline.source["flights"]) == "localhost:9092"
    assert (
        declared(with_change(["source", "flights", "watermark", "on"], "at"))
        .source["flights"]
        .watermark.column
        == "at"
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["chekpoint"], "x", "unknown key chekpoint; did you mean checkpoint?"),
        (["source", "flights", "topcis"], [], r"unknown key source\.flights\.topcis; did you mean topics\?"),
        (["source", "flights", "watermark", "dealy"], "", r"watermark\.dealy; did you mean delay\?"),
        (["sink", "out", "colour"], "", r"unknown key sink.out.colour; known keys are"),
        (
            ["source", "flights", "options"],
            {"startingOffset": "latest", "kafka.client.id": "x"},
            r"source\.flights\.options: option startingOffset is not known: did you mean startingOffsets\?",
        ),
        (
            ["sink", "out", "options"],
            {"linger.ms": 5},
            r"sink\.out\.options: option linger\.ms is not known: did you mean kafka\.linger\.ms\?",
        ),
        (["name"], None, "missing required field `name`"),
        (["source", "flights", "topics"], "flights", r"Expected `array`, got `str`.*topics"),
        (["source", "flights", "format"], "xml", "Invalid enum value 'xml'"),
        (["source", "flights", "topics"], [], r"source\.flights: give exactly one of topics and pattern"),
        (["source", "flights", "pattern"], "f.*", r"source\.flights: give exactly one of topics and pattern"),
        (["source", "flights", "schema"], None, "format json needs a schema"),
        (["source", "flights", "format"], "text", "a schema needs a format"),
        (["source", "flights", "format"], "protobuf", "needs message"),
        (["source"], {}, "add a source to read"),
        (["sink"], {}, "add a sink to write"),
        (["view", "flights"], {"sql": "SELECT 1"}, r"view\.flights: a source has the same name"),
        (
            ["sink", "out", "from"],
            "hour",
            r"sink\.out: there is no source or view 'hour'; did you mean 'hours'\?",
        ),
        (["sink", "out", "parquet"], "x", r"sink\.out: give exactly one of .*; given: topic and parquet"),
        (["sink", "out", "topic"], None, r"give exactly one of .*; given: none"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path, value, message):
    with pytest.raises(PipelineError, match=message):
        declared(with_change(path, value))


def test_a_file_with_paths_of_its_own_folder(tmp_path: Path):
    (tmp_path / "value.avsc").write_text('{"type": "string"}')
    file = tmp_path / "p.toml"
    file.write_text(
        """
        name = "copy"
        checkpoint = "state"
        [source.orders]
        topics = ["orders"]
        format = "avro"
        schema = "value.avsc"
        [sink.files]
        from = "orders"
        parquet = "out"
        [sink.far]
        from = "orders"
        delta = "s3://bucket/orders"
        """
    )
    pipeline = load(file)
    assert pipeline.checkpoint == str(tmp_path / "state")
    assert pipeline.source["orders"].schema == str(tmp_path / "value.avsc")
    assert pipeline.sink["files"].parquet == str(tmp_path / "out")
    assert pipeline.sink["far"].delta == "s3://bucket/orders"


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(PipelineError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(PipelineError, match="is not valid TOML"):
        load(tmp_path / "bad.toml")
