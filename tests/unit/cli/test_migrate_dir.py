"""migrate-dir: what it refuses, changes, keeps and writes. That Kafka then starts is in tests/conformance."""

import json
import subprocess
import sys
import uuid

import pytest

from bowstring import Broker
from bowstring.clients.admin import Admin
from bowstring.engine.broker.checkpoints import replace_file
from bowstring.engine.broker.metadata_reader import read_metadata
from bowstring.engine.configs.files import load

KILLED = """
import os, sys
from bowstring import Broker
from bowstring.clients.admin import Admin
broker = Broker(data_dir=sys.argv[1]).start()
with Admin(broker.bootstrap_servers) as admin:
    admin.create_topic("t", 1, 1, {})
print(broker.port, flush=True)
os._exit(9)
"""


@pytest.fixture
def stopped(tmp_path):
    """The directory of a broker that ran, with a topic, and stopped."""
    path = tmp_path / "data"
    with Broker(data_dir=path) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2, 1, {"bowstring.durability": "commit", "retention.ms": "7"})
    return path


def content(path):
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file() and each.name != ".lock"}


def metadata(path):
    return read_metadata(path / "__cluster_metadata-0")


def test_to_kafka(offline, stopped, tmp_path):
    before = content(stopped)
    done = offline("migrate-dir", stopped, "--json", "--backup", tmp_path / "kept")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["to"], report["topics"], report["partitions"], report["clean"]) == ("kafka", 1, 2, True)
    assert report["backup"] == str(tmp_path / "kept")
    image = metadata(stopped).image
    assert image.topic_configs("t") == {"retention.ms": "7"}
    assert image.brokers[1].fenced and image.brokers[1].in_controlled_shutdown
    after = content(stopped)
    assert all("__cluster_metadata-0" in str(path) for path in before if before[path] != after.get(path))
    assert before[stopped / "__cluster_metadata-0/00000000000000000000.log"] == (
        (tmp_path / "kept/00000000000000000000.log").read_bytes()
    )
    settings = load(stopped / "server.properties")
    assert settings["process.roles"] == "broker,controller"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert settings["log.dirs"] == str(stopped)
    assert "CONTROLLER://127.0.0.1:9093" in settings["listeners"].split(",")
    assert settings["offsets.topic.replication.factor"] == "1"
    again = json.loads(offline("migrate-dir", stopped, "--to", "kafka", "--json").out)
    assert again["backup"] is None, "nothing is left to change"
    assert len(list(stopped.glob("server.properties.*"))) == 1


def test_settings_so_far_are_taken_over(offline, stopped, tmp_path):
    config = tmp_path / "mine.properties"
    config.write_text("num.partitions=5\nlisteners=PLAINTEXT://:19092\nbowstring.durability=os\nnode.id=1\n")
    done = offline("migrate-dir", stopped, "--config", config, "--properties", tmp_path / "k.properties")
    assert done.code == 0, done.err
    settings = load(tmp_path / "k.properties")
    assert settings["num.partitions"] == "5"
    assert settings["listeners"] == "PLAINTEXT://:19092,CONTROLLER://127.0.0.1:9093"
    assert not any(name.startswith("bowstring.") for name in settings)


def test_a_dry_run_changes_nothing(offline, stopped):
    before = content(stopped)
    done = offline("migrate-dir", stopped, "--dry-run")
    assert done.code == 0
    assert "not done: removed bowstring.durability of t" in done.err
    assert content(stopped) == before


def test_back_to_bowstring_changes_no_record(offline, stopped):
    before = content(stopped)
    done = offline("migrate-dir", stopped, "--to", "bowstring")
    assert done.code == 0
    assert f"bowstring serve --config {stopped}/server.properties" in done.out
    after = content(stopped)
    assert set(after) - set(before) == {stopped / "server.properties"}
    assert {path: after[path] for path in before} == before
    settings = load(stopped / "server.properties")
    assert "process.roles" not in settings and settings["node.id"] == "1"
    with Broker(config=settings | {"listeners": "PLAINTEXT://127.0.0.1:0"}, data_dir=stopped) as broker:
        assert broker.port


def test_a_directory_in_use(offline, tmp_path):
    with Broker(data_dir=tmp_path / "data"):
        done = offline("migrate-dir", tmp_path / "data")
    assert done.code == 1 and "is in use" in done.err


def test_an_unclean_directory_is_refused_or_recovered(offline, tmp_path):
    path = tmp_path / "data"
    command = [sys.executable, "-c", KILLED, str(path)]
    port = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    done = offline("migrate-dir", path)
    assert done.code == 1 and "--unclean" in done.err
    done = offline("migrate-dir", path, "--unclean", "--json")
    assert done.code == 0, done.err
    assert "t" in metadata(path).image.topics
    assert (path / ".kafka_cleanshutdown").exists()
    assert load(path / "server.properties")["listeners"].startswith(f"PLAINTEXT://127.0.0.1:{port},")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "meta.properties").unlink(), "meta.properties is missing"),
        (lambda path: replace_file(path / "meta.properties", "cluster.id=x\n"), "is damaged"),
        (
            lambda path: (path / "__cluster_metadata-0").rename(path.parent / "away"),
            "no __cluster_metadata-0",
        ),
    ],
)
def test_what_is_no_brokers_directory(offline, stopped, spoil, message):
    spoil(stopped)
    done = offline("migrate-dir", stopped)
    assert done.code == 1 and message in done.err
    assert offline("migrate-dir", stopped / "nowhere").code == 1


def test_directories_of_different_brokers(offline, stopped, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text(f"version=1\ncluster.id={uuid.uuid4().hex}\nnode.id=1\n")
    done = offline("migrate-dir", stopped, other)
    assert done.code == 1 and "different brokers" in done.err
