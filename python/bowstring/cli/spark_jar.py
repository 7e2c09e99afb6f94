"""`bowstring spark-jar`."""

from __future__ import annotations


def spark_jar() -> None:
    """Print the path of the jar that gives Spark the columnar engine.

    For `spark-submit --jars "$(bowstring spark-jar)"`, `spark.jars` in spark-defaults.conf, or
    ADD JAR in SQL.
    """
    from bowstring.spark.sessions import jar_path

    print(jar_path())
