#!/bin/sh
# Starts the Python of a Spark worker. Spark puts its own copy of PySpark before everything else, a zip without
# compiled modules; the PySpark installed in this Python is the same and needs a third of the time to load.
rest=${PYTHONPATH#"$SPARK_HOME"/python/lib/pyspark.zip:}
rest=${rest#"$SPARK_HOME"/python/lib/py4j-*-src.zip:}
rest=${rest#"$SPARK_HOME"/jars/spark-core_*.jar}
PYTHONPATH=${rest#:}
export PYTHONPATH
exec "${BOWSTRING_WORKER_PYTHON:-python3}" "$@"
