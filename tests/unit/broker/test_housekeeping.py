"""Retention, flushing, checkpoints: by their own clock, here with a short one."""

import time

from bowstring._native.record.encode import encode_batch
from bowstring.engine.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from bowstring.protocol.messages import list_offsets as lo
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


def batch(age_ms=0):
    return encode_batch([(None, b"v" * 100, time.time_ns() // 1_000_000 - age_ms, [])])


def earliest(served, topic="t"):
    wanted = lo.ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = lo.ListOffsetsRequest(
        replica_id=-1, topics=[lo.ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    return served.ask(request).topics[0].partitions[0].offset


def test_old_segments_go(serve):
    served = serve(log_retention_check_interval_ms="50", log_retention_ms=str(HOUR_MS))
    served.create_topic("t", file_delete_delay_ms="50")
    for _ in range(3):
        served.produce("t", batch(age_ms=2 * HOUR_MS))
    wait_until(lambda: earliest(served) == 3)
    wait_until(lambda: len(list((served.directory / "t-0").glob("*.log*"))) == 1)


def test_segments_beyond_the_size_go(serve):
    served = serve(log_retention_check_interval_ms="50")
    served.create_topic("t", retention_bytes="500", internal_segment_bytes="300")
    for _ in range(20):
        served.produce("t", batch())
    wait_until(lambda: earliest(served) > 0)


def test_checkpoints_are_written_while_it_runs(serve):
    served = serve(
        log_flush_offset_checkpoint_interval_ms="50",
        log_flush_start_offset_checkpoint_interval_ms="50",
        replica_high_watermark_checkpoint_interval_ms="50",
    )
    served.create_topic("t", flush_messages="1")
    served.produce("t", batch())
    wait_until(lambda: read_offsets(served.directory / HIGH_WATERMARKS).get(("t", 0)) == 1)
    wait_until(lambda: read_offsets(served.directory / RECOVERY_POINTS).get(("t", 0)) == 1)
    assert read_offsets(served.directory / LOG_START_OFFSETS) == {}


def test_flush_ms_syncs_by_time(serve):
    served = serve(log_flush_offset_checkpoint_interval_ms="50")
    served.create_topic("t", flush_ms="50")
    served.create_topic("never")
    served.produce("t", batch())
    served.produce("never", batch())
    wait_until(lambda: read_offsets(served.directory / RECOVERY_POINTS).get(("t", 0)) == 1)
    assert read_offsets(served.directory / RECOVERY_POINTS).get(("never", 0)) == 0


def test_a_clean_stop_leaves_every_checkpoint_and_the_marker(served):
    served.create_topic("t")
    served.produce("t", batch())
    served.stop()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert read_offsets(served.directory / name) == {("t", 0): 1}
    assert (served.directory / ".kafka_cleanshutdown").exists()
    served.start()
    assert not (served.directory / ".kafka_cleanshutdown").exists()
