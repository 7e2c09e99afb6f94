"""Snapshots that a node writes of its own metadata log."""

from tests.support.embedded import engine_of
from tests.support.waiting import wait_until


def test_snapshots_are_taken_by_bytes_and_by_time(serve):
    broker = serve(metadata_log_max_record_bytes_between_snapshots="1000000")
    folder = broker.directory / "__cluster_metadata-0"
    broker.create_topic("few")
    assert not list(folder.glob("*.checkpoint"))
    broker.stop()
    broker.config["metadata.log.max.snapshot.interval.ms"] = "50"
    broker.start()
    wait_until(lambda: list(folder.glob("*.checkpoint")))
    broker.stop()
    broker.config["metadata.log.max.snapshot.interval.ms"] = "0"
    broker.config["metadata.log.max.record.bytes.between.snapshots"] = "1"
    broker.start()
    broker.create_topic("many")
    wait_until(lambda: len(list(folder.glob("*.checkpoint"))) > 1)
    broker.restart()
    assert set(engine_of(broker.broker).metadata.image.topics) == {"few", "many"}
