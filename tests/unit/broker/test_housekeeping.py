"""Retention, flushing, checkpoints: by their own clock, here with a short one."""

import logging
import shutil
import threading
import time

from bowstring import Broker
from bowstring._native.record.encode import encode_batch
from bowstring.clients.admin.admin import Admin
from bowstring.engine.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from bowstring.engine.storage.retired_directories import RetiredDirectories
from bowstring.protocol.messages import list_offsets as lo
from tests.support.waiting import HANG_S, wait_until

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


def test_a_stop_leaves_deleted_directories_to_the_next_start(tmp_path, monkeypatch, caplog):
    """Nothing is written or removed once the directory is no longer locked."""
    began, is_closing, unlinked = threading.Event(), threading.Event(), []

    def rmtree(path, **_):
        unlinked.append(path)
        began.set()
        assert is_closing.wait(HANG_S)

    def close(retired):
        right(retired)
        is_closing.set()

    right = RetiredDirectories.close
    monkeypatch.setattr(RetiredDirectories, "close", close)
    config = {"log.segment.delete.delay.ms": 0}
    with Broker(data_dir=tmp_path, config=config) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 9, 1, {})
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        admin.delete_topics(["t"])
        assert began.wait(HANG_S)
    monkeypatch.undo()
    assert len(unlinked) <= 2  # two calls may run at once
    assert len(list(tmp_path.glob("t-*-delete"))) == 9
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    with Broker(data_dir=tmp_path, config=config):
        wait_until(lambda: not list(tmp_path.glob("t-*")))
