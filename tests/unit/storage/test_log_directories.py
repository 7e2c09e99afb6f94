"""Several log directories: identity, placement, offline partitions, and one that fails while others live."""

import errno
import shutil
import time

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import ConfigError
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import CLEAN_SHUTDOWN, META_PROPERTIES
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support import faults
from tests.support.log_dirs import described, homes
from tests.support.waiting import pause, wait_until

STORAGE_ERROR = 56
NAMES = ("a", "b", "c")


def facts(path) -> dict[str, str]:
    text = (path / META_PROPERTIES).read_text()
    return dict(line.split("=") for line in text.splitlines() if not line.startswith("#"))


def opened(*paths, metadata=None) -> LogDirectories:
    directories = LogDirectories([str(path) for path in paths], metadata)
    directories.open(node_id=1)
    return directories


def batch(value=b"v") -> bytes:
    return encode_batch([(None, value, time.time_ns() // 1_000_000, [])])


@pytest.fixture
def serve_on(serve, tmp_path):
    """Starts a broker on several directories of the test's."""

    def start(*names, **config):
        return serve(log_dirs=",".join(str(tmp_path / name) for name in names or NAMES), **config)

    return start


# ---------------------------------------------------------------- identity


def test_new_directories_join_the_cluster_of_the_others(tmp_path):
    first = opened(tmp_path / "a")
    first.close()
    both = opened(tmp_path / "b", tmp_path / "a")
    both.close()
    a, b = facts(tmp_path / "a"), facts(tmp_path / "b")
    assert a["cluster.id"] == b["cluster.id"] == first.cluster_id
    assert a["directory.id"] != b["directory.id"]


def test_directories_of_two_clusters_are_refused(tmp_path):
    opened(tmp_path / "a").close()
    opened(tmp_path / "b").close()
    with pytest.raises(DataDirectoryError, match=r"a/meta\.properties belongs to.*b/meta\.properties"):
        opened(tmp_path / "a", tmp_path / "b")


def test_a_copy_of_a_directory_is_refused(tmp_path):
    opened(tmp_path / "a").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(DataDirectoryError, match=r"same directory\.id"):
        opened(tmp_path / "a", tmp_path / "b")


def test_a_directory_named_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="twice"):
        LogDirectories([str(tmp_path / "a"), f"{tmp_path}/b/../a"])


def test_one_that_cannot_be_used_is_offline_unless_it_has_the_metadata(tmp_path):
    (tmp_path / "b").write_text("not a directory")
    directories = opened(tmp_path / "a", tmp_path / "b")
    assert [each.path.name for each in directories.online] == ["a"]
    assert directories.offline_count == 1
    directories.close()
    with pytest.raises(DataDirectoryError, match="cannot use"):
        opened(tmp_path / "a", tmp_path / "b", metadata=str(tmp_path / "b"))


# ---------------------------------------------------------------- placement


def test_new_partitions_go_where_the_fewest_are(serve_on):
    served = serve_on()
    served.create_topic("t", partitions=5)
    served.create_topic("u", partitions=4)
    counts = [list(homes(served, name).values()) for name in "tu"]
    assert sorted(counts[0].count(name) for name in NAMES) == [1, 2, 2]
    assert [sum(each.count(name) for each in counts) for name in NAMES] == [3, 3, 3]
    before = homes(served)
    served.restart()
    assert homes(served) == before


def test_cordoned_directories_take_nothing_new(serve_on, tmp_path):
    served = serve_on(cordoned_log_dirs=str(tmp_path / "b"))
    served.create_topic("t", partitions=4)
    assert set(homes(served).values()) == {"a", "c"}
    assert [result.is_cordoned for result in described(served).values()] == [False, True, False]


def test_the_metadata_log_has_a_directory_of_its_own(serve_on, tmp_path):
    served = serve_on("a", "b", metadata_log_dir=str(tmp_path / "m"))
    served.create_topic("t", partitions=2)
    assert (tmp_path / "m" / "__cluster_metadata-0").is_dir()
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()
    served.restart()
    assert set(homes(served).values()) == {"a", "b"}


def test_a_partition_in_two_directories_is_refused(serve_on, tmp_path):
    served = serve_on()
    served.create_topic("t", partitions=1)
    (home,) = homes(served).values()
    served.stop()
    other, third = (tmp_path / name for name in NAMES if name != home)
    shutil.move(tmp_path / home / "t-0", other / "t-0")
    shutil.copytree(other / "t-0", third / "t-0")
    with pytest.raises(DataDirectoryError, match="more than one log directory"):
        served.start()
    shutil.rmtree(third / "t-0")
    served.start()
    assert homes(served) == {0: other.name}


def test_partitions_of_a_missing_directory_are_offline(serve_on, tmp_path):
    served = serve_on()
    served.create_topic("t", partitions=3)
    for index in range(3):
        assert served.produce("t", batch(), index).error_code == 0
    gone = next(index for index, home in homes(served).items() if home == "b")
    served.stop()
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("")
    served.start()
    assert described(served)["b"].error_code == STORAGE_ERROR
    (topic,) = served.ask(MetadataRequest(topics=None)).topics
    states = {p.partition_index: (p.error_code, p.leader_id, p.offline_replicas) for p in topic.partitions}
    assert states.pop(gone) == (5, -1, [1])
    assert set(map(str, states.values())) == {"(0, 1, [])"}
    assert served.produce("t", batch(), gone).error_code == STORAGE_ERROR
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=gone, timestamp=-1)])
    found = served.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7).topics[0].partitions[0]
    assert found.error_code == STORAGE_ERROR
    for index in states:
        assert served.produce("t", batch(), index).error_code == 0
    served.stop()
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    served.start()
    assert served.produce("t", batch(), gone).base_offset == 1


def test_partitions_of_a_directory_that_is_left_out_are_not_begun_anew(serve_on, tmp_path):
    """Nobody else has their records. Made anew, they would take new ones, and hide the old ones for good."""
    served = serve_on()
    served.create_topic("t", partitions=3)
    for index in range(3):
        assert served.produce("t", batch(), index).error_code == 0
    gone = next(index for index, home in homes(served).items() if home == "b")
    served.stop()
    given, served.config["log.dirs"] = served.config["log.dirs"], f"{tmp_path / 'a'},{tmp_path / 'c'}"
    served.start()
    codes = {index: served.produce("t", batch(), index).error_code for index in range(3)}
    assert codes.pop(gone) == STORAGE_ERROR
    assert set(codes.values()) == {0}
    assert not any((tmp_path / name / f"t-{gone}").exists() for name in ("a", "c"))
    served.stop()
    served.config["log.dirs"] = given
    served.start()
    assert served.produce("t", batch(), gone).base_offset == 1


# ---------------------------------------------------------------- failure


def failing_in(path, operation, error):
    """An operation on an open file of a directory fails."""

    def make(original):
        def fails(fd, *arguments):
            import os

            where = os.readlink(f"/proc/self/fd/{fd}")
            return -error if where.startswith(f"{path}/t") else original(fd, *arguments)

        return fails

    return faults.replaced(operation, make)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_a_failed_directory_takes_no_writes_and_the_others_live(serve_on, tmp_path, capfd, error):
    served = serve_on()
    served.create_topic("t", partitions=6)
    for index in range(6):
        assert served.produce("t", batch(), index).error_code == 0
    failed = [index for index, home in homes(served).items() if home == "b"]
    with failing_in(tmp_path / "b", "pwritev", error):
        assert served.produce("t", batch(), failed[0]).error_code == STORAGE_ERROR
    wait_until(lambda: described(served)["b"].error_code == STORAGE_ERROR)
    for index in range(6):
        wanted = STORAGE_ERROR if index in failed else 0
        assert served.produce("t", batch(), index).error_code == wanted
        log = served.engine.logs.get("t", index)
        assert len(log.read(0, 1 << 20)) > 0  # reads continue
    (topic,) = served.ask(MetadataRequest(topics=None)).topics
    assert [p.partition_index for p in topic.partitions if p.offline_replicas] == failed
    assert all(p.error_code == 0 and p.leader_id == 1 for p in topic.partitions)
    served.create_topic("u", partitions=4)
    assert set(homes(served, "u").values()) == {"a", "c"}
    with pytest.raises(LogError, match="t-"):
        served.stop()
    assert [(tmp_path / name / CLEAN_SHUTDOWN).exists() for name in NAMES] == [True, False, True]
    served.start()  # the space is free, the disk is mended
    for index in range(6):
        assert served.produce("t", batch(), index).base_offset == (1 if index in failed else 2)


def test_a_checkpoint_that_cannot_be_written_fails_its_directory(tmp_path):
    directories = opened(tmp_path / "a", tmp_path / "b")

    def full():
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    failed = []
    directories.when_failed = failed.append
    assert not directories.guard(directories.all[1], "writing a checkpoint", full)
    directories.look()
    assert [each.path.name for each in failed] == ["b"]
    assert not directories.guard(directories.all[1], "writing a checkpoint", lambda: None)
    assert directories.all[1].health.failure == (errno.ENOSPC, "writing a checkpoint", "somewhere")
    directories.mark_clean(1)
    directories.close()
    assert (tmp_path / "a" / CLEAN_SHUTDOWN).exists() and not (tmp_path / "b" / CLEAN_SHUTDOWN).exists()


def test_a_directory_fails_when_its_write_ahead_log_ends(serve_on):
    """Also without another append, which would find out."""
    served = serve_on("a", "b", bowstring_durability="commit")
    served.create_topic("t", partitions=2)
    broken = next(index for index, home in homes(served).items() if home == "b")
    directory = served.engine.directories.all[1]
    with faults.failing("write_durable", errno.EIO):
        assert served.produce("t", batch(), broken).error_code == STORAGE_ERROR
        wait_until(lambda: directory.health.failed)
    assert directory.health.failure == (errno.EIO, "writing the write-ahead log", str(directory.path))
    wait_until(lambda: served.engine.directories.offline_count == 1)
    assert served.produce("t", batch(), 1 - broken).error_code == 0
    with pytest.raises(LogError, match="writing the write-ahead log"):
        served.stop()


def test_the_metadata_logs_directory_fails(serve_on, tmp_path):
    """The broker ends, as Kafka's does, and confirms no change meanwhile: whether it happened is open. Records stay."""
    served = serve_on("a", "b", metadata_log_dir=str(tmp_path / "m"))
    served.create_topic("t", partitions=2)
    for index in range(2):
        assert served.produce("t", batch(), index).error_code == 0

    def make(original):
        return lambda fd: -errno.EIO

    with faults.replaced("sync", make):
        topic = ct.CreatableTopic(name="u", num_partitions=1, replication_factor=1)
        try:
            (result,) = served.ask(ct.CreateTopicsRequest(topics=[topic])).topics
        except ConnectionError:
            pass  # it ended before
        else:
            assert result.error_code in (Errors.NOT_CONTROLLER.code, Errors.REQUEST_TIMED_OUT.code)
        with pytest.raises(OSError, match=r"metadata log.*has failed: .*cluster_metadata"):
            served.stop()
    served.start()
    assert [served.produce("t", batch(), index).base_offset for index in range(2)] == [1, 1]
    (created,) = served.ask(ct.CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code in (0, Errors.TOPIC_ALREADY_EXISTS.code)
    assert served.produce("u", batch()).error_code == 0


def test_a_slow_directory_is_told_of(serve_on, tmp_path):
    served = serve_on("a", "b", bowstring_log_dir_slow_ms="60")
    served.create_topic("t", partitions=2)
    slow = next(index for index, home in homes(served).items() if home == "b")

    def make(original):
        def late(*arguments):
            pause(0.1, "a slow disk")
            return original(*arguments)

        return late

    with faults.replaced("pwritev", make):
        assert served.produce("t", batch(), slow).error_code == 0
    directories = served.engine.directories
    assert directories.all[1].health.slow_operations > 0
    assert directories.all_online
