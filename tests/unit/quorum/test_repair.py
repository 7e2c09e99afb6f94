"""A metadata log with records that cannot be applied: the start names the record, and the repair leaves it out."""

import asyncio
from functools import partial

import pytest
from typer.testing import CliRunner

from bowstring.cli.app import application
from bowstring.engine.metadata.store.reader import read_metadata
from bowstring.engine.quorum.repair import repair
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord, EndTransactionRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.quorum_nodes import Controllers
from tests.support.stopped_nodes import append_records, image_at_start
from tests.support.waiting import wait_until_async


def has_failed_or_topics(quorum):
    return quorum.has_failed or quorum.image.topics


def topic(name, number):
    return TopicRecord(name=name, topic_id=bytes([number]) * 16)


def partition(number, index=0):
    return PartitionRecord(topic_id=bytes([number]) * 16, partition_id=index, replicas=[1], isr=[1], leader=1)


def config(value, of="t"):
    return ConfigRecord(resource_type=2, resource_name=of, name="retention.ms", value=value)


FIRST = [topic("t", 1), partition(1), config("1")]
TWICE = [config("2", of="u"), topic("t", 2), config("2"), partition(2), partition(2, 1)]


@pytest.fixture
def broken(tmp_path):
    """Returns a function that writes batches as the fault did, and the directory of a node alone."""
    path = tmp_path / "data"

    def write(*batches):
        append_records(path, FIRST)
        first = read_metadata(path / "__cluster_metadata-0").end_offset + 1  # after the next leader change
        append_records(path, *batches)
        return first

    return write, path


def start(path):
    """Opens and closes a node; returns its image."""
    directory = LogDirectory(path)
    directory.open(node_id=1)
    try:
        return image_at_start(directory)
    finally:
        directory.close()


def test_a_start_names_the_record_and_the_cure(broken):
    write, path = broken
    first = write(TWICE)
    with pytest.raises(DataDirectoryError) as refused:
        start(path)
    said = str(refused.value)
    assert f"record {first + 1} cannot be applied: topic t is created twice" in said
    assert f"TopicRecord(name='t', topic_id={bytes([2]) * 16!r})" in said
    assert f"bowstring quorum repair --directory {path} --dry-run" in said


def test_the_repair_leaves_out_what_cannot_be_applied_and_no_more(broken):
    write, path = broken
    first = write(TWICE, [topic("v", 3)])
    before = {file.name: file.read_bytes() for file in (path / "__cluster_metadata-0").iterdir()}
    shown = repair(path, dry_run=True)
    assert {file.name: file.read_bytes() for file in (path / "__cluster_metadata-0").iterdir()} == before
    assert [each.offset - first for each in shown.dropped] == [1, 2, 3, 4]
    assert (shown.end_offset, shown.log_end_offset) == (first + 5, first + 6)
    assert repair(path) == shown and shown.snapshot.exists()
    image = start(path)
    assert set(image.topics) == {"t", "v"} and image.topics["t"].id == bytes([1]) * 16
    assert len(image.topics["t"].partitions) == 1
    assert image.topic_configs("t") == {"retention.ms": "1"}
    assert image.topic_configs("u") == {"retention.ms": "2"}
    assert repair(path).dropped == []


def test_records_behind_may_rest_on_what_is_left_out(broken):
    write, path = broken
    first = write(TWICE, [RemoveTopicRecord(topic_id=bytes([2]) * 16)])
    repair(path)
    with pytest.raises(DataDirectoryError, match=f"record {first + 5} cannot be applied"):
        start(path)
    assert [each.offset for each in repair(path).dropped] == [first + 5]
    assert set(start(path).topics) == {"t"}


def test_all_can_be_left_out_up_to_an_offset(broken):
    write, path = broken
    first = write(TWICE, [RemoveTopicRecord(topic_id=bytes([2]) * 16)], [topic("v", 3)], [topic("v", 4)])
    done = repair(path, through=first + 6)
    assert [each.offset - first for each in done.dropped] == [1, 2, 3, 4, 5]
    assert done.end_offset == first + 7
    assert [each.offset - first for each in repair(path).dropped] == [7]
    assert start(path).topics["v"].id == bytes([3]) * 16


def test_a_transaction_is_replayed_at_its_end(broken):
    write, path = broken
    first = write([BeginTransactionRecord(name="large")], TWICE, [EndTransactionRecord(), topic("v", 3)])
    with pytest.raises(DataDirectoryError, match=f"record {first + 6} cannot be applied.*TopicRecord"):
        start(path)
    done = repair(path)
    assert [each.offset - first for each in done.dropped] == [2, 3, 4, 5]
    assert done.end_offset == first + 8
    assert set(start(path).topics) == {"t", "v"}


def test_a_log_in_use_or_of_a_newer_version_is_not_repaired(broken):
    write, path = broken
    write(TWICE)
    directory = LogDirectory(path)
    directory.open(node_id=1)
    with pytest.raises(DataDirectoryError, match="in use"):
        repair(path)
    directory.close()
    with pytest.raises(DataDirectoryError, match="has no __cluster_metadata-0"):
        repair(path / "__cluster_metadata-0")


def test_the_command_shows_and_repairs(broken):
    write, path = broken
    first = write(TWICE)
    shown = CliRunner().invoke(application(), ["quorum", "repair", "--directory", str(path), "--dry-run"])
    assert shown.exit_code == 0 and f"{first + 1}  TopicRecord(name='t'" in shown.output
    assert "nothing is changed" in shown.output
    done = CliRunner().invoke(application(), ["quorum", "repair", "--directory", str(path)])
    assert done.exit_code == 0 and "left 4 records out" in done.output
    again = CliRunner().invoke(application(), ["quorum", "repair", "--directory", str(path)])
    assert again.exit_code == 0 and "nothing to repair" in again.output
    wrong = CliRunner().invoke(application(), ["quorum", "repair", "--directory", str(path.parent)])
    assert wrong.exit_code == 1


def test_the_nodes_of_a_quorum_start_again_and_agree(tmp_path):
    """All have the record, because it is committed."""

    async def scenario() -> None:
        controllers = Controllers(tmp_path)
        await controllers.start()
        leader = await controllers.leader()
        await leader.quorum.append(FIRST)
        leader.quorum.append(TWICE)
        await wait_until_async(
            lambda: sum(node.quorum.has_failed for node in controllers.nodes.values()) >= 2
        )
        for node in controllers.nodes.values():
            if node.quorum.has_failed:
                assert "topic t is created twice" in str(node.quorum.failed.exception())
        await controllers.stop()
        ends = []
        for id in controllers.ports:
            done = repair(tmp_path / str(id))
            if done.dropped:
                assert len(done.dropped) == 4
                ends.append((done.end_offset, done.epoch, done.snapshot.read_bytes()[100:]))
        assert len(ends) >= 2 and len({end[:2] for end in ends}) == 1

        # A node that did not have the record yet gets it, and is repaired then.
        await controllers.start()
        await wait_until_async(lambda: any(node.quorum.is_leader for node in controllers.nodes.values()))
        for id, node in list(controllers.nodes.items()):
            await wait_until_async(partial(has_failed_or_topics, node.quorum))
            if node.quorum.has_failed:
                await controllers.stop(id)
                assert repair(tmp_path / str(id)).dropped
                await controllers.start(id)
        leader = await controllers.leader()
        await leader.quorum.append([topic("v", 3)])
        await wait_until_async(
            lambda: all(set(node.quorum.image.topics) == {"t", "v"} for node in controllers.nodes.values())
        )
        for node in controllers.nodes.values():
            assert node.quorum.image.topics["t"].id == bytes([1]) * 16
        await controllers.stop()

    asyncio.run(scenario())
