"""Durability: the write-ahead logs of a broker, their supply, their checkpoints, and topics that change their mode."""

import asyncio
import errno
import logging
import os
import threading

import pytest

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.durability import join, staged_frame
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.wal.write_ahead_log import WalError
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.storage import directory_wal
from bowstring.engine.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from bowstring.engine.storage.directory_wal import DirectoryWal, liburing_path
from bowstring.engine.storage.durability import Durability
from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.messages import api_versions as av
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages import produce as p
from tests.support.descriptors import open_descriptors
from tests.support.faults import all_replaced, failing, replaced
from tests.support.joined_wal import TOPIC_ID, append
from tests.support.log_batches import CONFIG, batch
from tests.support.waiting import FOR_EVER_S, HANG_S, pause, wait_until

SEGMENT_BYTES = 16 << 20


@pytest.fixture
def made(tmp_path):
    """A directory's write-ahead log whose control loop never runs, and a log joined to it."""
    checkpoints = []
    configs = BrokerConfigs(
        {
            "bowstring.wal.io": "pwrite",
            "bowstring.wal.segment.bytes": str(SEGMENT_BYTES),
            "bowstring.wal.max.bytes": str(4 * SEGMENT_BYTES),
        }
    )
    plane = DataPlane(apis={}, reactors=1)
    loop = asyncio.new_event_loop()
    wal = DirectoryWal(tmp_path, configs, plane, lambda: checkpoints.append(1), 0)
    (tmp_path / "t-0").mkdir()
    log = PartitionLog(
        str(tmp_path / "t-0"), CONFIG, clean_shutdown=True, health=DirectoryHealth(str(tmp_path))
    )
    join(log, wal.wal, TOPIC_ID, 0)
    wal.add(log)
    wal.start(loop)
    yield wal, log, checkpoints
    wal.stop()
    wal.close(clean=True)
    loop.close()
    if not log.failed:
        log.close()


def test_segments_come_and_go_without_the_control_loop(made):
    wal, log, checkpoints = made
    for _ in range(120):
        append(log, 10, size=100_000)
        wait_until(lambda: wal.wal.stats()["staged_bytes"] < 16 << 20)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    assert wal.wal.stats()["segments"] <= 5 and checkpoints
    assert log.recovery_point > 0


def test_what_a_move_holds_is_not_freed(made):
    wal, log, _ = made
    wal.hold(log)
    held = wal.wal.closed_frame
    for _ in range(120):
        append(log, 10, size=100_000)
        wait_until(lambda: wal.wal.stats()["staged_bytes"] < 16 << 20)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    wal.ask_checkpoint().result(HANG_S)
    assert wal.wal.stats()["checkpoint_frame"] <= held
    assert wal.wal.stats()["segments"] > 5
    wal.let_go(log)
    wal.ask_checkpoint().result(HANG_S)
    assert wal.wal.stats()["checkpoint_frame"] > held


def test_waiting_for_the_medium(made):
    wal, log, _ = made
    done = []
    append(log, 3)
    wal.when_durable(log, lambda: done.append(log.high_watermark), unexpected)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    wal.when_durable(log, lambda: done.append(log.high_watermark), unexpected)
    assert done == [], "nothing is called back before the registration returns"
    wal.call_waiters()
    assert done == [3, 3]


def run_ready(wal):
    """Lets the control loop run ready callbacks."""
    wal._loop.call_soon(wal._loop.stop)
    wal._loop.run_forever()


def test_who_registers_again_and_again_is_called_by_the_loop(made):
    """As a coordinator does whose log is durable here while followers lag: no stack is deep enough for it."""
    wal, log, _ = made
    append(log, 1)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    calls = []

    def again():
        calls.append(log.log_end_offset)
        if len(calls) < 5000:
            wal.when_durable(log, again, unexpected)

    wal.when_durable(log, again, unexpected)
    assert not calls
    wait_until(lambda: run_ready(wal) or len(calls) == 5000)


def test_one_that_fails_keeps_no_call_from_the_others(made, caplog):
    wal, log, _ = made
    outcomes = []
    append(log, 1)
    wal.when_durable(log, unexpected, unexpected)
    wal.when_durable(log, lambda: outcomes.append("done"), unexpected)
    wait_until(lambda: run_ready(wal) or outcomes == ["done"])
    with failing("write_durable", errno.EIO):
        append(log, 1)
        wait_until(lambda: wal.wal.failure is not None)
        wal.when_durable(log, unexpected, unexpected)
        wal.when_durable(log, unexpected, lambda: outcomes.append("failed"))
        run_ready(wal)
    assert outcomes == ["done", "failed"]
    assert "it did not fail" in caplog.text


def unexpected():
    raise AssertionError("it did not fail")


def test_who_waits_learns_that_the_medium_failed(made):
    wal, log, _ = made
    append(log, 1)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    outcomes = []
    wal.when_failed = outcomes.append
    with failing("write_durable", errno.EIO):
        append(log, 1)
        wait_until(lambda: wal.wal.failure is not None)
        for _ in range(2):
            wal.when_durable(log, lambda: outcomes.append("done"), lambda: outcomes.append("failed"))
        assert outcomes == []
        run_ready(wal)
    assert outcomes == [errno.EIO, "failed", "failed"]


def test_the_end_takes_no_directory_out_of_service(made):
    """Without a segment the last frames are not written: the files of the logs are synced instead."""
    wal, log, _ = made
    failed = []
    wal.when_failed = failed.append
    append(log, 1)
    with failing("write_durable", errno.EIO):
        append(log, 1)
        wait_until(lambda: wal.wal.failure is not None)
        wal.stop()
    assert failed == [] and not log.failed


def test_room_that_cannot_be_made_is_asked_for_again(made, caplog):
    wal, log, _ = made
    caplog.set_level(logging.INFO, logger="bowstring")  # other tests may have left it at another

    def make(original):
        return lambda path, flags: -errno.ENOSPC if b"bowstring.wal" in path else original(path, flags)

    with replaced("open", make):
        for _ in range(25):
            append(log, 10, size=100_000)
        wait_until(lambda: any("no free segment" in record.message for record in caplog.records))
    # Records appended so far may have had room: this test ends when there is more.
    wait_until(lambda: any("has free segments again" in record.message for record in caplog.records))
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))


def test_a_lack_of_segments_that_comes_again_is_one_in_the_log(made, caplog, monkeypatch):
    """The supply thread has a segment now and then, while the disk is full."""
    monkeypatch.setattr(directory_wal, "OVER_S", 2.0)
    wal, log, _ = made
    changes = []
    wal.when_stuck = lambda: changes.append(wal.is_stuck)
    caplog.set_level(logging.INFO, logger="bowstring")
    messages = [
        "the write-ahead log has no free segment; producers wait until there is one again",
        "the write-ahead log has free segments again",
    ]

    def make(original):
        return lambda path, flags: -errno.ENOSPC if b"bowstring.wal" in path else original(path, flags)

    wal.hold(log)  # no checkpoint frees a segment
    for _ in range(2):
        with replaced("open", make):
            while not wal.is_stuck:
                if wal.wal.stats()["staged_bytes"] < 4 << 20:
                    append(log, 10, size=100_000)
                pause(0.001, "the supply thread looks once a second")
            assert wal.waiting_logs() == [log]
        wait_until(lambda: not wal.is_stuck)
        assert wal.waiting_logs() == []
    run_ready(wal)
    assert changes == [False] * 4, "the control loop ran late"
    wait_until(lambda: any("again" in record.message for record in caplog.records[1:]))
    found = [record.message for record in caplog.records if "segment" in record.message]
    assert found == messages


def test_an_end_that_cannot_be_marked_clean_closes_the_others(tmp_path):
    configs = BrokerConfigs({"bowstring.durability": "commit", "bowstring.wal.io": "pwrite"})
    durability = Durability(configs, DataPlane(apis={}, reactors=1), lambda: None)
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    durability.open([tmp_path / "a", tmp_path / "b"])
    wals = list(durability.wals.values())
    for wal in wals:
        log = PartitionLog(str(wal.path / "t-0"), CONFIG, clean_shutdown=True)
        join(log, wal.wal, TOPIC_ID, 0)
        append(log, 1)
        wal.make_room()
        assert wal.wal.commit()
        join(log, None, bytes(16), 0)
        log.close()
    open_fds = open_descriptors()
    with failing("write_durable", errno.EIO), pytest.raises(WalError, match="marked clean"):
        durability.close(is_clean=lambda path: True)
    assert not durability.wals
    assert open_descriptors() == open_fds - 2 * len(wals)


def test_a_topic_changes_its_mode(serve):
    served = serve()
    served.create_topic("t")
    log = served.engine.logs.get("t", 0)
    assert not log.in_commit_mode
    for mode, joined in (("commit", True), ("os", False), ("commit", True)):
        config = iac.AlterableConfig(name="bowstring.durability", config_operation=0, value=mode)
        resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
        assert log.in_commit_mode is joined
    assert list(served.directory.glob("bowstring.wal.*"))


def test_a_partition_that_joins_is_in_the_checkpoints(serve):
    """Deleted records were perhaps never synced. A start that looks for them would drop what follows them."""
    served = serve()
    served.create_topic("t")
    log = served.engine.logs.get("t", 0)
    append(log, 5)
    log.advance_high_watermark(5)
    log.delete_records(3)
    config = iac.AlterableConfig(name="bowstring.durability", config_operation=0, value="commit")
    resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    assert (
        served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code
        == 0
    )
    assert read_offsets(served.directory / RECOVERY_POINTS)["t", 0] == 5
    assert read_offsets(served.directory / LOG_START_OFFSETS)["t", 0] == 3


def test_a_mode_that_is_none_is_refused(serve):
    served = serve()
    served.create_topic("t")
    config = iac.AlterableConfig(name="bowstring.durability", config_operation=0, value="perhaps")
    resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 40 and "os" in answer.responses[0].error_message


def test_liburing_is_found():
    assert liburing_path()


def fill_segments(wal, log, count):
    """Appends until the write-ahead log has that many full segments."""
    while wal.wal.stats()["full_segments"] < count:
        append(log, 10, size=100_000)
        wait_until(lambda: wal.wal.stats()["staged_bytes"] < 16 << 20)


def test_a_disk_without_room_for_a_segment_is_helped_by_a_checkpoint(made):
    """Fewer full segments than are worth a checkpoint, but none can be added: producers must not wait for ever."""
    wal, log, checkpoints = made

    def make(original):
        return lambda path, flags: -errno.ENOSPC if b"bowstring.wal" in path else original(path, flags)

    fill_segments(wal, log, 1)
    before = len(checkpoints)
    with replaced("open", make):
        for _ in range(40):
            append(log, 10, size=100_000)
            wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    assert len(checkpoints) > before


def test_a_segment_is_not_begun_where_blocks_cannot_be_reserved(made):
    wal, log, _ = made
    fill_segments(wal, log, 1)
    wait_until(lambda: wal.wal.stats()["free_segments"] > 0)  # nothing else is written from now on
    written = []

    def reserve(original):
        return lambda fd, position, size: (
            -errno.ENOSPC if size == SEGMENT_BYTES else original(fd, position, size)
        )

    def pwritev(original):
        return lambda fd, parts, n, position: written.append(position) or original(fd, parts, n, position)

    with all_replaced({"reserve": reserve, "pwritev": pwritev}), pytest.raises(OSError, match="No space"):
        wal.wal.add_segment(99)
    assert 1 << 20 not in written


def test_free_segments_make_room_for_appends(made):
    """A partition's file that finds the disk full gets what the write-ahead log has to spare."""
    wal, log, _ = made
    fill_segments(wal, log, 3)
    wal.checkpoint()
    before = wal.wal.stats()["segments"]
    assert before > 2
    refused = iter([True])
    target = log.directory.encode()
    files = set()

    def opened(original):
        def call(path, flags):
            fd = original(path, flags)
            (files.add if path.startswith(target) else files.discard)(fd)
            return fd

        return call

    def pwritev(original):
        def call(fd, parts, n, position):
            return -errno.ENOSPC if fd in files and next(refused, False) else original(fd, parts, n, position)

        return call

    with all_replaced({"open": opened, "pwritev": pwritev}):
        log.roll()
        append(log, 3)
    assert not log.failed and wal.wal.stats()["segments"] == 2
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))


def test_a_checkpoint_nobody_waits_for_any_more(made):
    """A waiter that was cancelled must not end the thread that makes room."""
    wal, log, _ = made
    entered, leave = threading.Event(), threading.Event()

    def slow(original):
        def call(fd):
            entered.set()
            leave.wait(HANG_S)
            return original(fd)

        return call

    async def ask_and_give_up():
        tasks = [asyncio.ensure_future(wal.checkpoint_soon()) for _ in range(2)]
        await asyncio.to_thread(entered.wait, HANG_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    append(log, 1)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log) and wal.wal.stats()["free_segments"] > 0)
    with replaced("sync", slow):
        asyncio.run(ask_and_give_up())
        leave.set()
        wait_until(lambda: wal.wal.stats()["checkpoint_frame"] >= staged_frame(log))
    append(log, 1)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    asyncio.run(wal.checkpoint_soon())
    assert wal.wal.stats()["checkpoint_frame"] == staged_frame(log)


def test_a_log_that_failed_is_synced_before_its_frames_are_given_back(made):
    wal, log, _ = made
    append(log, 5)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    with failing("open", errno.EACCES), pytest.raises(LogError):
        log.roll()
    assert log.failed
    with failing("sync", errno.EMFILE), pytest.raises(LogError):
        wal.checkpoint()
    assert wal.wal.stats()["checkpoint_frame"] < staged_frame(log)
    synced = []

    def sync(original):
        return lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")) or original(fd)

    with replaced("sync", sync):
        wal.checkpoint()
    assert wal.wal.stats()["checkpoint_frame"] >= staged_frame(log)
    assert log.directory in synced and any(path.endswith(f"{0:020d}.log") for path in synced)


def test_a_failed_directory_gives_no_frames_back(made):
    wal, log, _ = made
    append(log, 5)
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log))
    log.health.fail(errno.EIO, "a test", log.directory)
    with pytest.raises(LogError):
        wal.checkpoint()
    assert wal.wal.stats()["checkpoint_frame"] < staged_frame(log)


def test_what_is_appended_while_a_topic_leaves_commit_mode_is_synced(serve):
    """Between the sync and the change of mode: the write-ahead log is about to forget it."""
    served = serve(bowstring_durability="commit")
    served.create_topic("t")
    log = served.engine.logs.get("t", 0)
    append(log, 2)
    appended = []

    def sync(original):
        def call(fd):
            error = original(fd)
            if not appended and os.readlink(f"/proc/self/fd/{fd}").endswith(f"t-0/{0:020d}.log"):
                appended.append(1)
                append(log, 3)
            return error

        return call

    with replaced("sync", sync):
        change(served, "bowstring.durability", "os")
    assert appended and not log.in_commit_mode
    assert log.recovery_point == 5


def test_a_stalled_disk_keeps_the_control_thread_answering(serve):
    """Producers fill the write-ahead log; heartbeats and everything else continue before the disk does."""
    served = serve(bowstring_durability="commit", bowstring_wal_io="pwrite")
    served.create_topic("t")
    large = batch([bytes(1_000_000)])
    assert served.produce("t", large).error_code == 0
    leave = threading.Event()

    def blocked(original):
        def call(*arguments):
            leave.wait(FOR_EVER_S)
            return original(*arguments)

        return call

    wal = next(iter(served.engine.logs.durability.wals.values())).wal
    writers = [threading.Thread(target=put, args=(served.connect(), large, 15)) for _ in range(4)]
    with all_replaced({"write_durable": blocked, "sync": blocked, "sync_file_system": blocked}):
        for writer in writers:
            writer.start()
        wait_until(lambda: wal.stats()["staged_bytes"] >= 32 << 20)
        asking = served.connect()
        try:
            for _ in range(200):
                asking.ask(av.ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        finally:
            leave.set()
        for writer in writers:
            writer.join()
    assert served.engine.logs.get("t", 0).high_watermark == 61


def put(client, records, count):
    part = p.PartitionProduceData(index=0, records=records)
    data = p.TopicProduceData(name="t", partition_data=[part])
    request = p.ProduceRequest(acks=1, timeout_ms=100_000, topic_data=[data])
    for i in range(count):
        client.send(encode_request(request, 9, i, "test"))
    for i in range(count):
        answered, answer = decode_response(request.api_key, 9, client.receive())
        assert (answered, answer.responses[0].partition_responses[0].error_code) == (i, 0)


def change(served, name, value):
    config = iac.AlterableConfig(name=name, config_operation=0, value=value)
    resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    answer = served.client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def test_gaps_are_made_below_the_recovery_point_only(serve):
    """Above it, recovery takes a gap for lost records, at the latest once the topic is compacted no more."""
    served = serve(log_cleaner_backoff_ms="20")
    served.create_topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    log = served.engine.logs.get("t", 0)
    for i in range(4):
        append(log, 3, keys=[b"k"])
        if i < 3:
            log.roll()
    log.advance_high_watermark(log.log_end_offset)
    assert log.recovery_point == 0
    assert served.produce("t", batch([b"v"], keys=[b"other"])).error_code == 0  # the cleaner looks
    wait_until(lambda: len(log.segments()) < 4)
    assert log.recovery_point >= 9
    points = (served.directory / "recovery-point-offset-checkpoint").read_text()
    assert "t 0 9" in points
