"""Data directories that a broker cannot start on: what it says, and that it leaves them as they were."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bowstring import Admin, Broker
from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch
from bowstring.clients.admin.results import NewTopic
from bowstring.engine.broker.broker import Broker as Engine
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from tests.support.cold_logs import flip
from tests.support.embedded import engine_of
from tests.support.log_batches import headers, segment_name
from tests.support.serving import Process
from tests.support.waiting import HANG_S

NOBODY = 65534
METADATA_LOG = "__cluster_metadata-0/" + segment_name(0, ".log")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A directory of a broker with two topics that was stopped cleanly."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    with Broker(data_dir=directory) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=2) for name in ("orders", "payments")])
    return directory


@pytest.fixture
def data(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "data")
    return tmp_path / "data"


def tree(directory):
    """Everything in it: names, kinds, contents. `.lock` is empty and may appear; nothing else may change."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.name != ".lock":
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
            found[str(path.relative_to(directory))] = content
    return found


def refusal(data, **settings):
    """What a broker says that will not start on the directory, which must stay as it is."""
    before = tree(data)
    broker = Engine({"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"} | settings)
    with pytest.raises((DataDirectoryError, LogError)) as raised:
        broker.open()
    assert tree(data) == before
    return str(raised.value)


# ---------------------------------------------------------------- whose it is


def test_another_nodes(data):
    said = refusal(data, **{"node.id": "7"})
    assert str(data / "meta.properties") in said and "belongs to node 1" in said and "set node.id=1" in said


def test_a_newer_versions(data):
    path = data / "meta.properties"
    path.write_text(path.read_text().replace("version=1", "version=2"))
    said = refusal(data)
    assert str(path) in said and "version 2" in said and "name another directory" in said


@pytest.mark.parametrize("text", ["", "version=1\n", "version=1\nnode.id=x\ncluster.id=y\n", "\0" * 100])
def test_an_identity_that_makes_no_sense(data, text):
    (data / "meta.properties").write_text(text)
    said = refusal(data)
    assert str(data / "meta.properties") in said and "restore it" in said


def test_no_identity(data):
    (data / "meta.properties").unlink()
    said = refusal(data)
    assert str(data / "meta.properties") in said and "missing" in said and "restore" in said


# ---------------------------------------------------------------- the metadata log


@pytest.mark.parametrize("what", ["missing", "empty", "a file"])
def test_no_metadata_log(data, what):
    path = data / "__cluster_metadata-0"
    shutil.rmtree(path)
    if what == "empty":
        path.mkdir()
    elif what == "a file":
        path.write_bytes(b"")
    said = refusal(data)
    assert str(path) in said and what in said and "restore it from a copy" in said


def test_a_metadata_log_whose_end_is_damaged_after_a_clean_stop(data):
    path = data / METADATA_LOG
    last = headers(path.read_bytes())[-1]
    flip(path, path.stat().st_size - 1)
    assert f"{path} is damaged at byte {path.stat().st_size - last.size_bytes}" in refusal(data)


@pytest.mark.parametrize("clean", [True, False])
def test_a_metadata_log_that_is_damaged_in_its_middle(data, clean):
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()
    path = data / METADATA_LOG
    sizes = [each.size_bytes for each in headers(path.read_bytes())]
    flip(path, sum(sizes[:2]) + 70)
    said = refusal(data)
    assert f"{path} is damaged at byte {sum(sizes[:2])}" in said and "from a copy" in said


def torn_batch(path):
    """The batch that would come next, of which power loss has kept the size, and all pages but the last."""
    last = headers(path.read_bytes())[-1]
    return (last.last_offset + 1).to_bytes(8, "big") + last.data[8:-20] + b"\0" * 20


@pytest.mark.parametrize("torn", [lambda path: b"\0" * 50, torn_batch], ids=["zeros", "batch"])
def test_a_torn_end_of_the_metadata_log_is_what_a_crash_leaves(data, torn):
    (data / ".kafka_cleanshutdown").unlink()
    end = torn(data / METADATA_LOG)
    with (data / METADATA_LOG).open("ab") as file:
        file.write(end)
    with Broker(data_dir=data) as broker:
        assert set(engine_of(broker).metadata.image.topics) == {"orders", "payments"}


def test_old_message_formats(data):
    path = data / METADATA_LOG
    path.write_bytes(b"\0" * 8 + (22).to_bytes(4, "big") + b"\x12\x34\x56\x78\x01\0" + b"\0" * 16)
    said = refusal(data)
    assert str(path) in said and "message format" in said and "Kafka 3" in said


def test_records_of_a_newer_version(data):
    path = data / METADATA_LOG
    newer = encode_batch([(None, b"\x01\x7f\x00future", 0, [])])
    base = headers(path.read_bytes())[-1].last_offset + 1
    with path.open("ab") as file:
        file.write(base.to_bytes(8, "big") + newer[8:12] + (1).to_bytes(4, "big") + newer[16:])
    said = refusal_after_the_start(data)
    assert str(data / "__cluster_metadata-0") in said and "newer version" in said


def refusal_after_the_start(data):
    """Errors that only a replay of the log shows: by then only the clean stop's marker is used up."""
    before = tree(data)
    with pytest.raises(DataDirectoryError) as raised:
        Engine({"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"}).open()
    before.pop(".kafka_cleanshutdown")
    after = tree(data)
    assert {key: after.get(key) for key in before} == before
    return str(raised.value)


# ---------------------------------------------------------------- permissions, devices


def as_nobody(data):
    """The output of `bowstring serve` for a user who is not root."""
    if os.geteuid() != 0:
        return serve(data)
    code = (
        "import os, sys\n"
        "from bowstring import Broker\n"
        "from bowstring.serve import main\n"
        # Loads the modules of any start: the package may be unreadable for the user nobody.
        "with Broker(): pass\n"
        "import importlib, pkgutil, bowstring.engine, bowstring.protocol\n"
        "for package in (bowstring.engine, bowstring.protocol):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "import bowstring._native.log.many_logs\n"
        f"os.setegid({NOBODY}); os.seteuid({NOBODY})\n"
        f"sys.exit(main(['--data', {str(data)!r}, '--host', '127.0.0.1', '--port', '0']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


def serve(data):
    done = subprocess.run(
        [sys.executable, "-m", "bowstring", "serve", "--data", str(data), "--port", "0"],
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.fixture
def reachable(data):
    """The directory where every user can reach it, and everything in it belongs to nobody."""
    above = Path(tempfile.mkdtemp(prefix="bowstring-test-", dir="/tmp"))  # TMPDIR may be closed to others
    above.chmod(0o755)
    moved = above / "data"
    shutil.copytree(data, moved)
    for path in [moved, *moved.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    yield moved
    for path in [moved, *moved.rglob("*")]:
        path.chmod(0o700)
    shutil.rmtree(above)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (".", 0o555),
        ("meta.properties", 0),
        ("__cluster_metadata-0", 0),
        (METADATA_LOG, 0),
        ("orders-0", 0),
        ("orders-1/" + segment_name(0, ".log"), 0),
    ],
)
def test_permissions(reachable, name, mode):
    before = tree(reachable)
    path = reachable / name
    path.chmod(mode)
    (reachable / ".kafka_cleanshutdown").unlink()
    before.pop(".kafka_cleanshutdown")
    said = as_nobody(reachable)
    path.chmod(0o755 if path.is_dir() else 0o644)
    assert str(path).removesuffix("/.") in said or path.name in said, said
    assert "ermission" in said or "denied" in said, said
    assert "Traceback" not in said
    kept = {key: value for key, value in tree(reachable).items() if key in before}
    changed = {key for key in before if kept.get(key) != before[key]}
    # A partition's files are checked after the metadata log has been started.
    assert all(key.startswith("__cluster_metadata-0/") and "orders" in name for key in changed), changed


def test_a_file_in_the_place_of_the_directory(tmp_path):
    (tmp_path / "data").write_text("something else")
    said = serve(tmp_path / "data")
    assert str(tmp_path / "data") in said and "name another with --data" in said
    assert (tmp_path / "data").read_text() == "something else"


def test_a_full_disk(tmp_path, monkeypatch):
    """Nothing but the lock is left, and the next start is as good as the first."""
    write = os.write

    def full(fd, content):
        if "data" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, content)

    monkeypatch.setattr(os, "write", full)
    directory = LogDirectory(tmp_path / "data")
    with pytest.raises((DataDirectoryError, OSError), match="No space left"):
        directory.open(1)
    monkeypatch.undo()
    assert not (tmp_path / "data" / "meta.properties").exists()
    again = LogDirectory(tmp_path / "data")
    again.open(1)
    assert again.is_new
    again.close()


# ---------------------------------------------------------------- what a broker starts with nevertheless


def test_checkpoints_that_are_damaged(data, caplog):
    (data / RECOVERY_POINTS).write_bytes(b"\0" * 64)
    (data / "log-start-offset-checkpoint").write_text("0\nmany\n")
    (data / "replication-offset-checkpoint").write_bytes(b"\xff\xfe")
    (data / ".kafka_cleanshutdown").unlink()
    with caplog.at_level("WARNING", "bowstring"), Broker(data_dir=data) as broker:
        assert set(engine_of(broker).metadata.image.topics) == {"orders", "payments"}
    told = " ".join(str(getattr(line, "facts", "")) for line in caplog.records)
    assert str(data / RECOVERY_POINTS) in told and "log-start-offset-checkpoint" in told
    assert (data / RECOVERY_POINTS).read_text().startswith("0\n4\n")


def test_partition_files_that_are_damaged(data):
    """Each by itself is put right, at a clean start and after a crash."""
    for clean in (True, False):
        for name, content in (
            ("orders-0/partition.metadata", None),
            ("orders-0/leader-epoch-checkpoint", b"junk"),
            ("orders-0/" + segment_name(0, ".index"), b"odd"),
            ("orders-1/" + segment_name(0, ".timeindex"), None),
            ("orders-1/" + segment_name(9, ".log.deleted"), b"junk"),
            ("orders-1/" + segment_name(0, ".index.cleaned"), b"junk"),
            ("orders-1/" + segment_name(0, ".snapshot"), b"junk"),
        ):
            path = data / name
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            if not clean:
                (data / ".kafka_cleanshutdown").unlink()
            with Broker(data_dir=data) as broker:
                logs = engine_of(broker).logs
                assert all(logs.get(topic, i) is not None for topic in ("orders", "payments") for i in (0, 1))


def test_a_partition_directory_that_is_missing(data, caplog):
    shutil.rmtree(data / "orders-1")
    before = {
        key: value
        for key, value in tree(data).items()
        # Like Kafka's, a broker leads in a new epoch after each start.
        if key.startswith("payments") and not key.endswith("leader-epoch-checkpoint")
    }
    with caplog.at_level("WARNING", "bowstring"), Broker(data_dir=data) as broker:
        assert engine_of(broker).logs.get("orders", 1).log_end_offset == 0
    (line,) = [each for each in caplog.records if "has no directory" in each.getMessage()]
    assert line.facts == {"partition": "orders-1", "directory": str(data)}
    after = tree(data)
    assert {key: after[key] for key in before} == before


def test_a_partition_of_another_topic_is_set_aside(data):
    """A directory that came from another cluster: same name, another topic id."""
    (data / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEQ\n")
    (data / ".kafka_cleanshutdown").unlink()
    mark = b"kept"
    (data / "orders-0" / "note").write_bytes(mark)
    with Broker(data_dir=data) as broker:
        assert engine_of(broker).logs.get("orders", 0) is not None
    (aside,) = data.glob("orders-0.*-stray")
    assert (aside / "note").read_bytes() == mark


def test_a_served_broker_tells_what_it_cut_off(data):
    (data / ".kafka_cleanshutdown").unlink()
    path = data / "payments-1" / segment_name(0, ".log")
    path.write_bytes(b"\0" * 100)
    process = Process("--data", str(data), "--port", "0", "--set", "bowstring.durability=os")
    try:
        (line,) = [each for each in process.lines if "truncated" in each["message"]]
        assert line["file"] == str(path) and line["partition"] == "payments-1" and line["bytes"] == 100
    finally:
        assert process.stop() == 0
