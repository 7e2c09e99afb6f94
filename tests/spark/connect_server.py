"""A Spark Connect server without any jar of ours; prints its port and ends when standard input does."""

import sys

from pyspark.sql import SparkSession


def main(folder: str) -> None:
    """Serves until standard input is closed."""
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": folder,
        "spark.local.dir": folder,
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    print(getattr(service, "MODULE$").localPort(), flush=True)
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
