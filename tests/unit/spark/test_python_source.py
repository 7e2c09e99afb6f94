"""Which engine serves, as the Python engine says it, without Spark around it."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.spark import python_source
from bowstring.spark.options import read_options
from bowstring.spark.python_source import StreamReader, require_python_engine
from bowstring.spark.row_schema import spark_schema


def test_a_session_without_the_jar_is_warned_once(caplog):
    python_source._say_which_engine.cache_clear()
    require_python_engine({"engine": "python"})
    assert caplog.records == []
    for _ in range(2):
        require_python_engine({"subscribe": "t"})
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "spark.jars=$(bowstring spark-jar)" in record.getMessage()
    with pytest.raises(ConfigError, match="jar is not on Spark's class path"):
        require_python_engine({"engine": "columnar"})


def test_a_source_keeps_its_name():
    """Sources of a query that read something else, or as another group, have another one."""

    def units(**given):
        asked = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "t", **given}
        options = read_options(asked, streaming=True)
        return StreamReader(options, spark_schema(options.shape)).name

    given = {"audit.tier": "app", "kafka.group.id": "g"}
    name = units(**given)
    assert name == units(**given, maxOffsetsPerTrigger="5")
    others = [
        {"subscribe": "t,u"},
        {"startingOffsets": "earliest"},
        {"columns": "value"},
        {"kafka.group.id": "h"},
    ]
    assert len({name, *(units(**given | other) for other in others)}) == 5
