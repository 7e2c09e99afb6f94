"""Durability: the write-ahead logs of a broker, their supply, their checkpoints, and topics that change their mode."""

import asyncio
import errno
import time

import pytest

from bowstring._native.dataplane import DataPlane
from bowstring._native.log_durability import join, staged_frame
from bowstring.engine.broker.durability import DirectoryWal, liburing_path
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.protocol.messages import incremental_alter_configs as iac
from tests.unit.log.batches import open_log
from tests.unit.log.faults import replaced
from tests.unit.wal.joined import TOPIC_ID, append

SEGMENT_BYTES = 16 << 20


@pytest.fixture
def made(tmp_path):
    """A directory's write-ahead log whose control loop never runs, and a log joined to it."""
    checkpoints = []
    configs = BrokerConfigs(
        {"bowstring.wal.segment.bytes": str(SEGMENT_BYTES), "bowstring.wal.max.bytes": str(4 * SEGMENT_BYTES)}
    )
    plane = DataPlane(apis={}, reactors=1)
    loop = asyncio.new_event_loop()
    wal = DirectoryWal(tmp_path, configs, plane, lambda: checkpoints.append(1), 0)
    (tmp_path / "t-0").mkdir()
    log = open_log(tmp_path / "t-0")
    join(log, wal.wal, TOPIC_ID, 0)
    wal.add(log)
    wal.start(loop)
    yield wal, log, checkpoints
    wal.stop()
    wal.close(clean=True)
    loop.close()
    log.close()


def until(true, seconds=20):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_segments_come_and_go_without_the_control_loop(made):
    wal, log, checkpoints = made
    for _ in range(120):
        append(log, 10, size=100_000)
        until(lambda: wal.wal.stats()["staged_bytes"] < 16 << 20)
    until(lambda: wal.wal.durable_frame >= staged_frame(log))
    assert wal.wal.stats()["segments"] <= 5 and checkpoints
    assert log.recovery_point > 0


def test_waiting_for_the_medium(made):
    wal, log, _ = made
    done = []
    append(log, 3)
    wal.when_durable(log, lambda: done.append(log.high_watermark))
    until(lambda: wal.wal.durable_frame >= staged_frame(log))
    wal.when_durable(log, lambda: done.append(log.high_watermark))
    assert done == [3, 3]


def test_room_that_cannot_be_made_is_asked_for_again(made, monkeypatch, caplog):
    wal, log, _ = made
    monkeypatch.setattr("bowstring.engine.broker.durability._RETRY_S", 0.01)

    def make(original):
        return lambda path, flags: -errno.ENOSPC if b"bowstring.wal" in path else original(path, flags)

    with replaced("open", make):
        for _ in range(25):
            append(log, 10, size=100_000)
        until(lambda: any("no room" in record.message for record in caplog.records))
    until(lambda: wal.wal.durable_frame >= staged_frame(log))


def test_a_topic_changes_its_mode(serve):
    served = serve()
    served.create_topic("t")
    log = served.broker._running().logs.get("t", 0)
    assert not log.in_commit_mode
    for mode, joined in (("commit", True), ("os", False), ("commit", True)):
        config = iac.AlterableConfig(name="bowstring.durability", config_operation=0, value=mode)
        resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
        assert log.in_commit_mode is joined
    assert list(served.directory.glob("bowstring.wal.*"))


def test_a_mode_that_is_none_is_refused(serve):
    served = serve()
    served.create_topic("t")
    config = iac.AlterableConfig(name="bowstring.durability", config_operation=0, value="perhaps")
    resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 40 and "os" in answer.responses[0].error_message


def test_liburing_is_found():
    assert liburing_path()


def test_a_topic_that_is_compacted_no_more_has_its_gaps_below_the_recovery_point(serve):
    served = serve()
    served.create_topic("t", cleanup_policy="compact")
    log = served.broker._running().logs.get("t", 0)
    append(log, 3)
    log.roll()
    append(log, 1)
    assert log.recovery_point == 0
    config = iac.AlterableConfig(name="cleanup.policy", config_operation=0, value="delete")
    resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0
    assert log.recovery_point == 3
    points = (served.directory / "recovery-point-offset-checkpoint").read_text()
    assert "t 0 3" in points
