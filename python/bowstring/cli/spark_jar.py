"""Implements `bowstring spark-jar`."""

from __future__ import annotations


def spark_jar() -> None:
    """Print the path of the jar with the columnar Spark engine; build it first if it is not installed.

    For `spark-submit --jars "$(bowstring spark-jar)"`, `spark.jars` in spark-defaults.conf, or ADD JAR in
    SQL.
    """
    from bowstring.spark.jar import jar_path

    print(jar_path())
