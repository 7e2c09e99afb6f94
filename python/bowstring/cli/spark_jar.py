"""Implements `bowstring spark-jar`."""

from __future__ import annotations

import sys

from bowstring.cli.output import print_hint


def spark_jar() -> None:
    """Print the path of the jar with the columnar Spark engine; build it first if it is not installed.

    For `spark-submit --jars "$(bowstring spark-jar)"`, `spark.jars` in spark-defaults.conf, or ADD JAR in
    SQL.
    """
    from bowstring.spark.jar import jar_path

    path = jar_path()
    print(path)
    if sys.stdout.isatty():
        print_hint(f"in spark-defaults.conf: spark.jars {path}")
        print_hint(
            f'in Python: SparkSession.builder.config("spark.jars", "{path}"), or bowstring.spark.session()'
        )
