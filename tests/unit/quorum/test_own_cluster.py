"""The metadata log of a node alone: what its start finds after clean stops, crashes and damage, and what it refuses."""

import asyncio
import errno
import json
import os
from contextlib import asynccontextmanager, contextmanager

import pytest

from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.metadata.quorum import QuorumFacts, control_record
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.reader import read_metadata
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.quorum.synced_end import FILE_NAME
from bowstring.engine.raft.voters import Endpoint
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from bowstring.protocol.records.control import (
    Endpoint as EndpointRecord,
)
from bowstring.protocol.records.control import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    VotersRecord,
    VotersRecordVoter,
)
from bowstring.protocol.records.control_batch import ControlRecordType, decode_control_key
from tests.support import faults
from tests.support.stopped_nodes import image_at_start, led, quorum_of
from tests.support.waiting import wait_until_async


@pytest.fixture
def directory(tmp_path):
    made = LogDirectory(tmp_path / "data")
    made.open(node_id=1)
    yield made
    made.close()


def log_of(directory):
    return directory.path / "__cluster_metadata-0"


def config(name, value="v"):
    return ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)


def write(directory, *batches):
    """Commits batches in one epoch, as one life of the node does."""
    with led(directory) as leader:
        for records in batches:
            leader.append(records)


def write_snapshot(directory):
    """Writes a snapshot of the whole log, as the node does; returns its id."""
    state = read_metadata(log_of(directory))
    id = SnapshotId(state.end_offset, state.epoch)
    MetadataSnapshots(log_of(directory)).write(id, encode_snapshot(state.image, state.quorum, id, 1, 1))
    return id


def names(directory):
    """The configs that a start finds."""
    return set(image_at_start(directory).resource_configs(2, "t"))


def segment(directory):
    return log_of(directory) / f"{0:020d}.log"


@asynccontextmanager
async def started(directory, **configs):
    """A replica that leads."""
    quorum = quorum_of(directory, **configs)
    quorum.open()
    quorum.start()
    try:
        await wait_until_async(lambda: quorum.is_leader)
        yield quorum
    finally:
        await quorum.stop()


def lead(directory, **configs):
    """Starts and stops a replica; returns its epoch and voters."""

    async def once():
        async with started(directory, **configs) as quorum:
            return quorum.epoch, quorum.voters

    return asyncio.run(once())


# ------------------------------------------------------------ epochs


def test_each_start_is_an_epoch_that_says_who_leads(directory):
    for epoch in (1, 2):
        assert lead(directory)[0] == epoch
        (record,) = decode_batches(batch_of(directory, -1))
        assert record.control and decode_control_key(record.key) is ControlRecordType.LEADER_CHANGE
        assert record.value[2:6] == (1).to_bytes(4, "big")
        state = json.loads((log_of(directory) / "quorum-state").read_text())
        assert (state["leaderId"], state["leaderEpoch"]) == (1, epoch)


def batch_of(directory, number):
    data = segment(directory).read_bytes()
    header = batch_headers(data)[number]
    return data[header.position : header.position + header.size_bytes]


def test_an_epoch_seen_elsewhere_is_passed(directory):
    write(directory, [config("a")])
    state = log_of(directory) / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":9'))
    assert lead(directory)[0] == 10


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b'{"leaderId":1,"data_version":0}'])
def test_a_damaged_quorum_state_is_rebuilt_from_the_log(directory, caplog, content):
    """No other node votes, so none can have got a vote that the file had."""
    write(directory, [config("a")])
    (log_of(directory) / "quorum-state").write_bytes(content)
    assert lead(directory)[0] == 2
    assert "rebuilt from the log" in caplog.text
    assert names(directory) == {"a"}


def test_a_quorum_state_that_cannot_be_read_now_stays(directory):
    write(directory, [config("a")])
    state = log_of(directory) / "quorum-state"
    before = state.read_text()
    state.rename(state.with_name("kept"))
    state.mkdir()
    with pytest.raises(IsADirectoryError):
        lead(directory)
    state.rmdir()
    state.with_name("kept").rename(state)
    assert state.read_text() == before


# ------------------------------------------------------------ snapshots


def test_a_snapshot_stands_for_what_is_before_it(directory):
    write(directory, [FeatureLevelRecord(name="metadata.version", feature_level=30), config("a")])
    write_snapshot(directory)
    write(directory, [config("b")])
    assert names(directory) == {"a", "b"}
    assert lead(directory)[0] == 3
    assert names(directory) == {"a", "b"}


@pytest.mark.parametrize("cut", [0, 40, -10])
def test_a_damaged_snapshot_gives_way_to_the_one_before_and_to_the_log(directory, caplog, cut):
    write(directory, [config("a")])
    first = write_snapshot(directory)
    write(directory, [config("b")])
    second = write_snapshot(directory)
    snapshots = MetadataSnapshots(log_of(directory))
    for id in (second, first):
        path = snapshots.path(id)
        path.write_bytes(path.read_bytes()[:cut])
        assert names(directory) == {"a", "b"}
        assert "cannot be read" in caplog.text
        caplog.clear()
    lead(directory)
    assert names(directory) == {"a", "b"}


def test_without_the_log_before_it_a_damaged_snapshot_is_fatal(directory):
    with led(directory) as leader:
        leader.append([config("a")])
        id = write_snapshot(directory)
        leader.log._log.roll()
        leader.append([config("b")])
        leader.log._log.delete_records(id.end_offset)
        leader.log._log.apply_retention(0)
        leader.log._log.delete_expired_files(1 << 60)
    path = MetadataSnapshots(log_of(directory)).path(id)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataDirectoryError, match=r"no usable snapshot reaches that; .* from a copy$"):
        image_at_start(directory)
    path.write_bytes(whole)
    assert names(directory) == {"a", "b"}


def test_a_log_that_ends_before_its_snapshot_begins_anew(directory):
    """The log was lost, or the snapshot copied from elsewhere."""
    write(directory, [config("a"), config("b")])
    id = write_snapshot(directory)
    for path in log_of(directory).glob("00000000000000000000.*"):
        path.unlink()
    assert names(directory) == {"a", "b"}
    with led(directory) as leader:
        assert leader.log.start_offset == id.end_offset
        leader.append([config("c")])
    assert names(directory) == {"a", "b", "c"}


def test_what_a_crash_left_of_a_snapshot_goes(directory):
    write(directory, [config("a")])
    part = log_of(directory) / "00000000000000000009-0000000001.checkpoint.part"
    part.write_bytes(b"half")
    assert names(directory) == {"a"}
    assert not part.exists()


# ------------------------------------------------------------ crashes and damage


@contextmanager
def after_a_crash(directory):
    """The directory as its next start finds it, without the marker of a clean stop."""
    directory.close()
    again = LogDirectory(directory.path)
    again.open(node_id=1)
    assert not again.was_clean
    yield again
    again.close()
    directory.open(node_id=1)


def test_a_torn_end_is_cut_off(directory):
    write(directory, [config("a")])
    with segment(directory).open("ab") as file:
        file.write(batch_of(directory, -1)[:-5])
    with after_a_crash(directory) as again:
        assert names(again) == {"a"}
        assert lead(again)[0] == 2
        assert names(again) == {"a"}


def test_records_that_were_written_and_not_synced_count_once_they_are_applied(directory):
    """A kill leaves them in the page cache; power loss must not take away what a start has carried out."""
    write(directory, [config("a")])
    synced_end = (log_of(directory) / FILE_NAME).read_bytes()
    write(directory, [config("b")])
    (log_of(directory) / FILE_NAME).write_bytes(synced_end)
    with after_a_crash(directory) as again:
        quorum = quorum_of(again)
        quorum.open()
        assert set(quorum.image.resource_configs(2, "t")) == {"a", "b"}
        assert quorum._log.synced_end.offset == quorum._log.end_offset == quorum.end_offset
        quorum.close()


def test_lost_records_that_were_synced_stop_the_start_and_the_operator_decides(directory):
    """There is no other node from which they could come."""
    write(directory, [config("a")], [config("b")])
    os.truncate(segment(directory), segment(directory).stat().st_size - 3)
    with after_a_crash(directory) as again:
        with pytest.raises(DataDirectoryError, match="the disk has lost or damaged") as refused:
            image_at_start(again)
        said = str(refused.value)
        assert "other controllers" not in said and "from a copy" in said
        assert said.endswith(f"delete {log_of(directory) / FILE_NAME}")
        (log_of(directory) / FILE_NAME).unlink()
        assert names(again) == {"a"}
        assert lead(again)[0] == 2


def test_a_transaction_that_never_ended_is_aborted(directory):
    """By the next life, or by a tool that changes the log of the stopped node."""
    half = [BeginTransactionRecord(name="t"), TopicRecord(name="half", topic_id=bytes(15) + b"\7")]
    write(directory, half)
    assert image_at_start(directory).in_transaction
    write(directory, [config("a")])
    image = image_at_start(directory)
    assert not image.in_transaction and not image.topics
    assert names(directory) == {"a"}


# ------------------------------------------------------------ logs of others


def test_a_newer_metadata_version_is_refused(directory):
    write(directory, [FeatureLevelRecord(name="metadata.version", feature_level=34)])
    before = {path: path.read_bytes() for path in log_of(directory).iterdir()}
    with pytest.raises(DataDirectoryError, match=r"metadata\.version 34"):
        image_at_start(directory)
    assert {path: path.read_bytes() for path in log_of(directory).iterdir()} == before


def voters(*ids_and_directories):
    points = [EndpointRecord(name="PLAINTEXT", host="h", port=7)]
    return VotersRecord(
        version=0,
        voters=[
            VotersRecordVoter(
                voter_id=id,
                voter_directory_id=directory_id,
                endpoints=points,
                kraft_version_feature=KRaftVersionFeature(max_supported_version=1),
            )
            for id, directory_id in ids_and_directories
        ],
    )


def write_voters(directory, record):
    """Puts voters into the log, as another broker did: one of an earlier version, or Kafka."""
    with led(directory) as leader:
        accumulator = leader._replica.state.accumulator
        entries = [
            control_record(ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
            control_record(ControlRecordType.KRAFT_VOTERS, record),
        ]
        accumulator.append_control(entries, 0)
        for batch in accumulator.drain():
            leader.log.append(batch)
        leader.log.sync(leader.log.end_offset, leader.log.synced_end.cuts)


def test_a_log_of_several_controllers_is_refused(directory):
    write_voters(directory, voters((1, directory.directory_id), (2, b"2" * 16)))
    with pytest.raises(DataDirectoryError, match="controllers 1, 2"):
        image_at_start(directory)
    with pytest.raises(DataDirectoryError, match="only a log whose one voter is node 1"):
        write(directory, [config("a")])


def test_a_log_of_several_configured_controllers_is_refused(directory):
    """Their ids are only beside the log: alone, the node would write other records in an epoch of theirs."""
    write(directory, [config("a")])
    path = log_of(directory) / "quorum-state"
    before = path.read_text()
    path.write_text(before.replace('[{"voterId":1}]', '[{"voterId":1},{"voterId":2},{"voterId":3}]'))
    with pytest.raises(DataDirectoryError, match=r"controllers 1, 2, 3; .* set controller\.quorum\.voters"):
        image_at_start(directory)
    path.write_text(before)
    assert names(directory) == {"a"}


@pytest.mark.parametrize("moved", [False, True], ids=["here", "from another directory"])
def test_voters_in_the_log_stay_as_they_are(directory, moved):
    """Nothing is known that would be better. The log of an only voter can move to another disk."""
    id = b"another disk id." if moved else directory.directory_id
    write_voters(directory, voters((1, id)))
    for _ in range(2):
        _, found = lead(directory)
        (voter,) = found
        assert voter.key == (1, id) and voter.endpoints == (Endpoint("PLAINTEXT", "h", 7),)
    write(directory, [config("a")])
    facts: QuorumFacts = read_metadata(log_of(directory)).quorum
    assert facts.voters == voters((1, id)) and facts.kraft_version == 1
    state = json.loads((log_of(directory) / "quorum-state").read_text())
    assert (state["leaderEpoch"], state["data_version"]) == (4, 1)
    assert names(directory) == {"a"}


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_log_of_an_earlier_version_is_continued(directory, kraft_version, has_snapshot):
    """A node alone wrote its log itself: the same records, no synced end, and in `quorum-state` no directory."""
    if kraft_version:
        write_voters(directory, voters((1, directory.directory_id)))
    write(directory, [config("a")])
    if has_snapshot:
        write_snapshot(directory)
    (log_of(directory) / FILE_NAME).unlink()
    epoch = 1 + kraft_version
    (log_of(directory) / "quorum-state").write_text(
        f'{{"leaderId":1,"leaderEpoch":{epoch},"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        '"data_version":1}'
        if kraft_version
        else f'{{"clusterId":"","leaderId":1,"leaderEpoch":{epoch},"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    with after_a_crash(directory) as again:
        assert names(again) == {"a"}
        assert lead(again)[0] == epoch + 1
        write(again, [config("b")])
        assert names(again) == {"a", "b"}
        assert read_metadata(log_of(again)).quorum.kraft_version == kraft_version


# ------------------------------------------------------------ the disk


@pytest.mark.parametrize("operation", ["pwritev", "sync"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_ends_the_node_and_costs_nothing_that_was_committed(directory, operation, after):
    async def scenario():
        async with started(directory) as quorum:
            await quorum.append([config("a")])
            with faults.failing(operation, errno.ENOSPC, after=after), pytest.raises(KafkaError) as refused:
                for number in range(after + 1):
                    await quorum.append([config(f"n{number}")])
            assert quorum.has_failed and refused.value.error is Errors.NOT_CONTROLLER
            return {f"n{number}" for number in range(after)}

    committed = asyncio.run(scenario())
    with after_a_crash(directory) as again:
        found = names(again)
        assert {"a"} | committed <= found
        assert lead(again)[0] == 2
        write(again, [config("z")])
        assert names(again) == found | {"z"}
