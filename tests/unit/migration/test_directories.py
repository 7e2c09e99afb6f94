"""migrate-dir: what it refuses, changes, keeps and writes. That Kafka then starts is in tests/conformance."""

import json
import subprocess
import sys
import uuid

import pytest

from bowstring import Broker
from bowstring._native.log.partition_log import LogError
from bowstring.clients.admin.admin import Admin
from bowstring.engine.configs import ConfigError
from bowstring.engine.configs.files import load
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.engine.metadata.store.reader import read_metadata
from bowstring.engine.storage.checkpoints import replace_file
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord
from bowstring.protocol.records.cluster_metadata.nodes import BrokerFeature, RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.security import AccessControlEntryRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from tests.support.embedded import Engine
from tests.support.stopped_nodes import append_records

KILLED = """
import os, sys
from bowstring import Broker
from bowstring.clients.admin.admin import Admin
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
    assert not (stopped / "__cluster_metadata-0/synced-end").exists(), "Kafka does not raise it"
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
    assert (
        "nothing is changed; without --dry-run:\n  removed bowstring.durability of t" in done.err
        and "✓" not in done.err
    )
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


def test_what_kafka_wrote_counts_as_synced(offline, stopped):
    """Bowstring's note of the synced end is older; without it, damage before good batches is no torn end."""
    kafka = RegisterBrokerRecord(
        broker_id=1, features=[BrokerFeature(name="group.version", max_supported_version=1)]
    )
    append_records(stopped, [kafka])
    assert (stopped / "__cluster_metadata-0/synced-end").exists()
    assert offline("migrate-dir", stopped, "--to", "bowstring", "--dry-run").code == 0
    assert (stopped / "__cluster_metadata-0/synced-end").exists()
    assert offline("migrate-dir", stopped, "--to", "bowstring").code == 0
    assert not (stopped / "__cluster_metadata-0/synced-end").exists()
    with Broker(data_dir=stopped) as broker:
        assert broker.port


def test_settings_that_ask_for_a_missing_protection_become_comments(offline, stopped, tmp_path):
    """The file that the command names starts, and says what it leaves out."""
    config = tmp_path / "kafka.properties"
    config.write_text(
        "listeners=PLAINTEXT://localhost:19092\nnum.partitions=5\nqueued.max.request.bytes=1000000\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "create.topic.policy.class.name=com.example.Policy\nsuper.users=User:admin\n"
    )
    done = offline("migrate-dir", stopped, "--to", "bowstring", "--config", config)
    assert done.code == 0, done.err
    text = (stopped / "server.properties").read_text()
    assert "\n# queued.max.request.bytes=" in text and "\n# create.topic.policy.class.name=com" in text
    assert "note: queued.max.request.bytes" in done.out and "note: create.topic.policy" in done.out
    assert "\nauthorizer.class.name=org.apache" in text and "\nsuper.users=User:admin" in text
    assert f"\nstart it with: bowstring serve --config {stopped}/server.properties" in done.out
    settings = load(stopped / "server.properties")
    assert settings["num.partitions"] == "5"
    with Broker(config=settings | {"listeners": "PLAINTEXT://127.0.0.1:0"}, data_dir=stopped) as broker:
        assert broker.port


def test_listeners_that_cannot_be_served_are_named_before_the_start(offline, stopped, tmp_path):
    config = tmp_path / "kafka.properties"
    config.write_text("listeners=SASL_SSL://localhost:19092\n")
    done = offline("migrate-dir", stopped, "--to", "bowstring", "--config", config)
    assert done.code == 0, done.err
    assert f"change {stopped}/server.properties before the start: " in done.out and "SASL_SSL" in done.out
    assert "then start it with: bowstring serve" in done.out


def set_dynamically(path, **configs):
    """Dynamic configs that another broker, or an older one, left in the metadata log of a stopped directory."""
    records = [
        ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name="", name=name.replace("_", "."), value=value
        )
        for name, value in configs.items()
    ]
    append_records(path, records)


def test_a_protection_in_the_metadata_log_stops_the_start_until_it_is_removed(offline, stopped):
    set_dynamically(stopped, principal_builder_class="x.B", log_retention_ms="5", com_example_limit="7")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"principal\.builder\.class=x\.B is not enforced.*migrate-dir"):
            Broker(data_dir=stopped).start()
        assert (stopped / ".kafka_cleanshutdown").exists(), "nothing was touched"
    done = json.loads(offline("migrate-dir", stopped, "--to", "bowstring", "--json").out)
    assert (
        "removed principal.builder.class of all brokers, which Bowstring does not enforce" in done["changes"]
    )
    assert done["backup"] is not None
    assert metadata(stopped).image.resource_configs(BROKER_RESOURCE, "") == {
        "log.retention.ms": "5",
        "com.example.limit": "7",
    }
    with Broker(data_dir=stopped) as broker:
        assert broker.port


def test_what_kafka_kept_to_protect_is_warned_of_at_each_start(stopped, caplog):
    rule = AccessControlEntryRecord(
        id=bytes(15) + b"\1",
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:eve",
        host="*",
        operation=3,
        permission_type=2,
    )
    append_records(stopped, [rule])
    for _ in range(2):
        caplog.clear()
        with Broker(data_dir=stopped):
            pass
        said = {
            record.getMessage(): record.facts["count"]
            for record in caplog.records
            if "access control" in record.getMessage()
        }
        assert said == {
            "the metadata log holds access control entries, but this broker has no authorizer, so it does not "
            "enforce them; set authorizer.class.name": 1
        }


def test_an_unclean_directory_with_a_protection_is_recovered(offline, tmp_path):
    path = tmp_path / "data"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    set_dynamically(path, principal_builder_class="x.B")
    assert offline("migrate-dir", path, "--to", "bowstring", "--unclean").code == 0
    with Broker(data_dir=path) as broker, Admin(broker.bootstrap_servers) as admin:
        assert "t" in admin.list_topics()


def test_recovery_serves_nobody_and_adds_nothing_to_the_metadata(tmp_path):
    """Its settings are the defaults: with them, no timer may run that deletes records."""
    path = tmp_path / "data"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    log = path / "__cluster_metadata-0/00000000000000000000.log"
    before, registered = log.read_bytes(), metadata(path).image.brokers[1]
    assert not registered.fenced
    broker = Engine({"log.dirs": str(path), "queued.max.request.bytes": "7"})
    assert broker.configs.unenforced()
    broker.recover()
    assert broker.listeners == [] and broker.local is None
    assert log.read_bytes() == before
    marker = json.loads((path / ".kafka_cleanshutdown").read_text())
    assert marker["brokerEpoch"] == registered.epoch


def test_recovery_of_a_directory_that_cannot_be_used_leaves_it_unclean(tmp_path):
    path = tmp_path / "data"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    segment = path / "t-0/00000000000000000000.log"
    segment.unlink(missing_ok=True)
    segment.mkdir()
    with pytest.raises(LogError):
        Engine({"log.dirs": str(path)}).recover()
    assert not (path / ".kafka_cleanshutdown").exists()
    segment.rmdir()
    Engine({"log.dirs": str(path)}).recover()
    assert (path / ".kafka_cleanshutdown").exists()


def test_a_change_of_the_cluster_that_never_ended_takes_nothing_of_the_migration_with_it(offline, stopped):
    """The next controller aborts it, and all that is in it."""
    append_records(
        stopped, [BeginTransactionRecord(name="half"), TopicRecord(name="half", topic_id=b"h" * 16)]
    )
    done = offline("migrate-dir", stopped, "--to", "kafka")
    assert done.code == 0, done.err
    image = metadata(stopped).image
    assert not image.in_transaction and set(image.topics) == {"t"}
    assert image.topic_configs("t") == {"retention.ms": "7"}


def test_a_listener_of_kafkas_is_opened_again_by_a_command_that_says_so(offline, tmp_path):
    path = tmp_path / "data"
    settings = {"advertised.listeners": "PLAINTEXT://broker.example:7"}
    with Broker(data_dir=path, config=settings):
        pass
    done = json.loads(offline("migrate-dir", path, "--to", "bowstring", "--json").out)
    assert done["command"].endswith("server.properties --listen-unauthenticated")
    assert any("PLAINTEXT://:7" in warning for warning in done["warnings"])


def test_keys_of_plugins_are_carried_over(offline, stopped, tmp_path):
    config = tmp_path / "mine.properties"
    config.write_text("confluent.telemetry.enabled=false\n")
    done = offline("migrate-dir", stopped, "--config", config, "--to", "kafka")
    assert done.code == 0, done.err
    assert "confluent.telemetry.enabled=false" in (stopped / "server.properties").read_text()


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


def test_the_directory_of_the_metadata_log_need_not_be_the_first(offline, tmp_path):
    path, other = tmp_path / "data", tmp_path / "other"
    both = Broker(config={"log.dirs": f"{path},{other}"}, data_dir=path)
    with both as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 4, 1, {})
    for each in (path, other):
        (each / ".kafka_cleanshutdown").unlink()
    done = offline("migrate-dir", other, path, "--unclean")
    assert done.code == 0, done.err
    assert all((each / ".kafka_cleanshutdown").exists() for each in (path, other))
    assert (path / "server.properties").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "meta.properties").unlink(), "meta.properties is missing"),
        (lambda path: replace_file(path / "meta.properties", "cluster.id=x\n"), "is damaged"),
        (
            lambda path: (path / "__cluster_metadata-0").rename(path.parent / "away"),
            "no __cluster_metadata-0",
        ),
        (
            lambda path: replace_file(
                path / "__cluster_metadata-0" / "quorum-state",
                '{"data_version":0,"currentVoters":[{"voterId":1},{"voterId":2}]}',
            ),
            "belongs to a quorum of the controllers [1, 2]",
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
