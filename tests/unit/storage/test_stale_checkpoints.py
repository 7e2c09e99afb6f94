"""Checkpoints of a topic that was deleted say nothing about one of the same name that came after it."""

import shutil
import time

import pytest

from bowstring import Broker
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.messages import delete_records as dr
from bowstring.protocol.messages import delete_topics as dt
from tests.support.embedded import engine_of
from tests.support.waiting import wait_until


def batch():
    return encode_batch([(None, b"v", time.time_ns() // 1_000_000, [])])


@pytest.mark.parametrize("restarted", [True, False])
def test_a_topic_made_anew_is_whole_after_a_crash(serve, tmp_path_factory, restarted):
    served = serve(
        log_flush_offset_checkpoint_interval_ms="100",
        log_flush_start_offset_checkpoint_interval_ms="100",
        log_initial_task_delay_ms="0",
    )
    served.create_topic("t")
    for _ in range(5):
        served.produce("t", batch())
    partition = dr.DeleteRecordsPartition(partition_index=0, offset=5)
    served.ask(
        dr.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=5000
        )
    )
    if restarted:
        served.config = {}  # no checkpoint in time from now on
        served.restart()
    else:
        path = served.directory / "log-start-offset-checkpoint"
        wait_until(lambda: path.exists() and "t 0 5" in path.read_text())
    served.ask(dt.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), version=5)
    served.create_topic("t")
    for _ in range(2):
        served.produce("t", batch())
    crashed = tmp_path_factory.mktemp("crashed") / "data"
    shutil.copytree(served.directory, crashed, ignore=shutil.ignore_patterns("*-delete", "*.sock"))
    with Broker(data_dir=crashed) as broker:
        log = engine_of(broker).logs.get("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (0, 2)
