"""A streaming job that copies a topic, for the test that kills it: servers, from, to, checkpoint, and how."""

import sys

from bowstring.spark.sessions import session


def main(servers: str, source: str, target: str, checkpoint: str, *how: str) -> None:
    """Copies until it is killed; `how` is engine and rows per batch."""
    engine, rows_per_batch = how
    settings = {"spark.driver.memory": "700m", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = session("copy", master="local[2]", fast_checkpoints=True, **settings)
    rows = (
        spark.readStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"})
        .options(maxOffsetsPerTrigger=rows_per_batch, engine=engine)
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "topic": target})
        .options(checkpointLocation=checkpoint, engine=engine, delivery="exactly-once")
        .start()
    )
    print("begun", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
