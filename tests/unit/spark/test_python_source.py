"""Which engine serves, as the Python engine says it, without Spark around it."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.spark import python_source
from bowstring.spark.python_source import require_python_engine


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
