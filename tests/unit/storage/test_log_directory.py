"""The data directory: lock, identity, clean-shutdown marker, names."""

import subprocess
import sys

import pytest

from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import CLEAN_SHUTDOWN, META_PROPERTIES, NO_EPOCH, LogDirectory
from bowstring.protocol import format_uuid, parse_uuid
from tests.support.waiting import HANG_S

ID = bytes(range(16))


@pytest.fixture
def opened(tmp_path):
    directory = LogDirectory(tmp_path / "data")
    directory.open(node_id=1)
    yield directory
    directory.close()


def test_a_new_directory_gets_an_identity_that_stays(opened):
    assert opened.is_new and opened.was_clean
    text = (opened.path / META_PROPERTIES).read_text()
    facts = dict(line.split("=") for line in text.splitlines() if not line.startswith("#"))
    assert facts == {
        "version": "1",
        "node.id": "1",
        "cluster.id": opened.cluster_id,
        "directory.id": format_uuid(opened.directory_id),
    }
    opened.close()
    again = LogDirectory(opened.path)
    again.open(node_id=1)
    assert (again.cluster_id, again.directory_id) == (opened.cluster_id, opened.directory_id)
    assert not again.is_new and not again.was_clean
    again.close()


def test_a_second_broker_is_refused(opened):
    with pytest.raises(DataDirectoryError, match="in use by another broker"):
        LogDirectory(opened.path).open(node_id=1)


def test_a_second_process_is_refused(opened):
    code = (
        "import sys; from bowstring.engine.storage.log_directory import LogDirectory\n"
        "LogDirectory(sys.argv[1]).open(node_id=1)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(opened.path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode != 0
    assert "in use by another broker" in ran.stderr


def test_the_clean_marker_is_good_for_one_start(opened):
    opened.mark_clean(broker_epoch=7)
    assert (opened.path / CLEAN_SHUTDOWN).read_text() == '{"version":0,"brokerEpoch":7}'
    opened.close()
    again = LogDirectory(opened.path)
    again.open(node_id=1)
    assert again.was_clean
    assert again.clean_epoch == 7
    assert not (opened.path / CLEAN_SHUTDOWN).exists()
    again.close()
    (opened.path / CLEAN_SHUTDOWN).write_text("")  # as old versions wrote it
    again = LogDirectory(opened.path)
    again.open(node_id=1)
    assert again.was_clean
    assert again.clean_epoch == NO_EPOCH
    again.close()


def test_another_nodes_directory_is_refused(opened):
    opened.close()
    with pytest.raises(DataDirectoryError, match=r"belongs to node 1.*set node.id=1"):
        LogDirectory(opened.path).open(node_id=2)
    opened.open(node_id=1)


def test_a_damaged_or_missing_identity_is_refused(opened):
    path = opened.path / META_PROPERTIES
    opened.close()
    text = path.read_text()
    path.write_text("version=1\n")
    with pytest.raises(DataDirectoryError, match="damaged"):
        LogDirectory(opened.path).open(node_id=1)
    path.unlink()
    (opened.path / "topic-0").mkdir()
    with pytest.raises(DataDirectoryError, match=r"missing.*topic-0"):
        LogDirectory(opened.path).open(node_id=1)
    path.write_text(text)
    opened.open(node_id=1)


def test_an_unusable_path_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataDirectoryError, match="cannot use the data directory"):
        LogDirectory(file).open(node_id=1)


def test_partition_metadata_is_kafkas(opened):
    (opened.path / "t-0").mkdir()
    assert opened.read_partition_metadata("t-0") is None
    opened.write_partition_metadata("t-0", ID)
    assert (
        opened.path / "t-0" / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {format_uuid(ID)}\n"
    assert opened.read_partition_metadata("t-0") == ID
    for damaged in (b"topic_id: ?\n", b"", bytes(40), b"\xa5" * 40):
        (opened.path / "t-0" / "partition.metadata").write_bytes(damaged)
        assert opened.read_partition_metadata("t-0") is None


def test_only_live_partitions_are_found(opened):
    for name in ("t-0", "with-dash-12", "t-1.abc-delete", "t-2.abc-stray", "noise"):
        (opened.path / name).mkdir()
    (opened.path / "file-3").write_text("")
    assert sorted(opened.partition_directories()) == ["t-0", "with-dash-12"]
    assert opened.deleted_directories() == ["t-1.abc-delete"]


def test_retired_names_fit_the_file_system(opened):
    name = opened.retired_name("t" * 249, 123, "-delete")
    assert len(name) <= 255
    assert name.endswith("-delete") and name.startswith("ttt")
    assert opened.retired_name("t", 0, "-delete") != opened.retired_name("t", 0, "-delete")


def test_ids_are_text_and_bytes(opened):
    assert parse_uuid(opened.cluster_id) != bytes(16)
