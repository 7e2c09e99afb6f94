"""Compaction in a running broker: topics are compacted by themselves, offsets remembered, deleted topics forgotten."""

import time
from types import SimpleNamespace

import pytest

from bowstring.engine.storage.checkpoints import read_offsets
from bowstring.engine.storage.cleaner import CLEANER_OFFSETS, CleanerOffsets
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import offset_commit as oc
from bowstring.protocol.messages import offset_fetch as of
from tests.support.compacted_logs import compacted, records_of
from tests.support.log_batches import batch
from tests.support.waiting import pause, wait_until

FAST = {
    "log_cleaner_backoff_ms": "20",
    "log_initial_task_delay_ms": "10",
    "group_initial_rebalance_delay_ms": "0",
}
SMALL = {"cleanup_policy": "compact", "segment_bytes": "1048576", "internal_segment_bytes": "2000"}


@pytest.fixture
def compacting(serve):
    return serve(**FAST)


def cleaner_of(served):
    return served.engine.cleaner


def log_of(served, topic):
    return served.engine.logs.get(topic, 0)


def write(served, topic, keys, rounds):
    for i in range(rounds):
        written = batch(
            [b"%d" % i] * keys, keys=[b"key%d" % k for k in range(keys)], timestamp=1_700_000_000_000
        )
        assert served.produce(topic, written).error_code == 0


def test_compacts_by_itself_and_remembers_where_it_was(compacting):
    compacting.create_topic("table", **SMALL)
    write(compacting, "table", 10, 100)
    log = log_of(compacting, "table")
    directory, cleaner = compacting.directory, cleaner_of(compacting)
    wait_until(lambda: read_offsets(directory / CLEANER_OFFSETS).get(("table", 0), 0) > 800)
    wait_until(lambda: cleaner.is_idle)
    runs, records = cleaner.figures.runs, records_of(log)
    assert len(records) < 120
    assert {key: value for _, key, value in records} == {b"key%d" % k: b"99" for k in range(10)}
    assert log.log_end_offset == 1000
    pause(0.2, "nothing was written: nothing is done")
    assert cleaner.figures.runs == runs
    compacting.restart()
    assert records_of(log_of(compacting, "table")) == records
    write(compacting, "table", 10, 100)
    wait_until(lambda: len(records_of(log_of(compacting, "table"))) < 140)


def test_a_deleted_topic_is_forgotten(compacting):
    compacting.create_topic("gone", **SMALL)
    write(compacting, "gone", 10, 100)
    checkpoint = compacting.directory / CLEANER_OFFSETS
    wait_until(lambda: ("gone", 0) in read_offsets(checkpoint))
    topic = dt.DeleteTopicState(name="gone", topic_id=bytes(16))
    compacting.ask(dt.DeleteTopicsRequest(topics=[topic], timeout_ms=10_000))
    wait_until(lambda: ("gone", 0) not in read_offsets(checkpoint))


def test_what_cannot_be_compacted_is_named_and_left_alone(serve):
    served = serve(**(FAST | {"log_cleaner_backoff_ms": "500"}))
    served.create_topic("table", **SMALL)
    write(served, "table", 10, 40)
    with (served.directory / "table-0" / f"{0:020}.log").open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    cleaner = cleaner_of(served)
    wait_until(lambda: cleaner.uncleanable)
    assert list(cleaner.uncleanable) == [("table", 0)]
    assert "00000000000000000000.log" in cleaner.uncleanable["table", 0]
    assert "position 0 fails its CRC-32C" in cleaner.uncleanable["table", 0]
    write(served, "table", 10, 1)
    pause(0.6, "longer than the cleaner's backoff: it may not try again")
    assert cleaner.figures.runs == 0


def test_the_default_policy_is_left_alone(compacting):
    compacting.create_topic("stream", internal_segment_bytes="2000", retention_ms="-1")
    write(compacting, "stream", 10, 60)
    pause(0.2, "the cleaner may not touch it")
    assert len(records_of(log_of(compacting, "stream"))) == 600
    assert cleaner_of(compacting).figures.runs == 0


def test_compact_and_delete_does_both(compacting):
    policy = {"cleanup_policy": "compact,delete", "retention_bytes": "3000", "retention_ms": "-1"}
    compacting.create_topic("both", **(SMALL | policy))
    write(compacting, "both", 10, 100)
    for i in range(40):  # every key once: compaction alone would keep it all
        written = batch([b"v"] * 10, keys=[b"%d-%d" % (i, k) for k in range(10)])
        assert compacting.produce("both", written).error_code == 0
    log = log_of(compacting, "both")
    wait_until(lambda: cleaner_of(compacting).figures.runs)
    log.apply_retention(int(time.time() * 1000))
    assert log.log_start_offset > 0 and log.size_bytes < 8000
    offsets = [offset for offset, _, _ in records_of(log)]
    assert offsets == sorted(set(offsets)) and offsets[-1] == 1399


def test_committed_offsets_survive_compaction(serve):
    served = serve(**FAST, offsets_topic_segment_bytes="1048576", offsets_topic_num_partitions="1")
    served.create_topic("t")
    find = fc.FindCoordinatorRequest(coordinator_keys=["g"])
    wait_until(lambda: served.ask(find, 4).coordinators[0].error_code == 0)
    for offset in range(600):
        part = oc.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="m" * 4000
        )
        topic = oc.OffsetCommitRequestTopic(name="t", partitions=[part])
        request = oc.OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )
        wait_until(lambda request=request: committed(served, request))
    log = log_of(served, "__consumer_offsets")
    wait_until(lambda: len(records_of(log)) < 400)
    served.restart()
    asked = of.OffsetFetchRequestGroup(
        group_id="g", topics=[of.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    wait_until(lambda: fetched(served, asked).error_code != Errors.COORDINATOR_LOAD_IN_PROGRESS.code)
    found = fetched(served, asked)
    assert found.error_code == 0
    assert found.topics[0].partitions[0].committed_offset == 599


def committed(served, request) -> bool:
    """False while the coordinator is not there yet."""
    return served.ask(request, 8).topics[0].partitions[0].error_code == 0


def fetched(served, asked):
    """The group's answer; it has no topics while a broker that has just started reads more than a little log."""
    return served.ask(of.OffsetFetchRequest(groups=[asked]), 8).groups[0]


def test_a_log_that_moved_begins_anew(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    old, new, other = (compacted(tmp_path / where) for where in ("a/t-0", "b/t-0", "a/u-0"))
    offsets = CleanerOffsets()
    for key, log in ((("t", 0), old), (("u", 0), other), (("t", 0), new)):
        offsets.put(key, log, 7)
    offsets.begin_anew(("t", 0), new)
    again = CleanerOffsets()
    found = [again.get(item) for item in ((("t", 0), old), (("t", 0), new), (("u", 0), other))]
    assert found == [None, None, 7]


def test_a_cut_lowers_the_offset_and_nothing_else(tmp_path):
    (tmp_path / "t-0").mkdir()
    log = SimpleNamespace(directory=str(tmp_path / "t-0"))
    offsets = CleanerOffsets()
    offsets.put(("t", 0), log, 10)
    offsets.put(("u", 0), log, 10)
    offsets.cut(("t", 0), log, 20)
    assert offsets.get((("t", 0), log)) == 10
    offsets.cut(("t", 0), log, 7)
    assert read_offsets(tmp_path / CLEANER_OFFSETS) == {("t", 0): 7, ("u", 0): 10}
