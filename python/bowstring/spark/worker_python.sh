#!/bin/sh
# Starts the Python of a Spark worker. Spark puts its own copy of PySpark before everything else, a zip without
# compiled modules; the PySpark installed in this Python is the same and needs a third of the time to load.
# Spark may name its home otherwise than SPARK_HOME does, by another link, so names are told by their ends.
rest=$PYTHONPATH
while :; do
    case ${rest%%:*} in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
        *) break ;;
    esac
    case $rest in
        *:*) rest=${rest#*:} ;;
        *) rest= ;;
    esac
done
PYTHONPATH=$rest
export PYTHONPATH
exec "${BOWSTRING_WORKER_PYTHON:-python3}" "$@"
