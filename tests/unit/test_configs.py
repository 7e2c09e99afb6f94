"""The config table: parsing, validation, synonyms, files, and values in force."""

import pytest

from bowstring.engine.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigError,
    ConfigSource,
    broker_key,
    validate_topic_configs,
)
from bowstring.engine.configs.files import load, parse_properties
from bowstring.engine.configs.reference import render
from bowstring.engine.configs.synonyms import TOPIC_SYNONYMS

LONG_MAX = 2**63 - 1


@pytest.mark.parametrize("key", [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()], ids=lambda key: key.name)
def test_every_default_is_valid(key):
    assert key.doc.endswith(".")
    if key.default is not None:
        key.parse(key.default)


def test_every_topic_synonym_is_a_row():
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        assert topic_name in TOPIC_CONFIGS
        for name, _ in synonyms:
            assert name in BROKER_CONFIGS


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", str(2**63), "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("cleanup.policy", "delete,shrink", "String must be one of: compact, delete"),
        ("compression.type", "lzma", "String must be one of"),
        ("compression.gzip.level", "0", "Value must be at least 1"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("preallocate", "yes", "true or false"),
        ("leader.replication.throttled.replicas", "1-2", "partition:broker"),
        ("segment.bytes", "1000", "Value must be at least 1048576"),
    ],
)
def test_invalid_values_are_refused(name, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        TOPIC_CONFIGS[name].parse(text)
    assert name in str(caught.value)


def test_values_are_typed():
    assert TOPIC_CONFIGS["cleanup.policy"].parse("compact, delete") == ["compact", "delete"]
    assert TOPIC_CONFIGS["cleanup.policy"].parse("") == []
    assert TOPIC_CONFIGS["compression.gzip.level"].parse("-1") == -1
    assert TOPIC_CONFIGS["min.cleanable.dirty.ratio"].parse("0.25") == 0.25
    assert TOPIC_CONFIGS["preallocate"].parse("TRUE") is True
    assert TOPIC_CONFIGS["leader.replication.throttled.replicas"].parse("*") == ["*"]


def test_a_password_is_not_repeated_in_errors():
    error = BROKER_CONFIGS["ssl.key.password"]._invalid("s3cret", "nonsense")
    assert "s3cret" not in str(error)


def test_unknown_key_names_the_nearest():
    with pytest.raises(ConfigError, match=r'"log.retenton.ms"; did you mean "log.retention.ms"'):
        BrokerConfigs({"log.retenton.ms": "1"})
    with pytest.raises(ConfigError, match="ZooKeeper is gone"):
        broker_key("zookeeper.connect")


def test_listener_prefix_takes_the_row_of_the_config():
    assert broker_key("listener.name.external.ssl.keystore.location").name == "ssl.keystore.location"
    assert broker_key("listener.name.sasl_ssl.plain.sasl.jaas.config").name == "sasl.jaas.config"


def test_topic_defaults_follow_the_synonyms_in_order():
    assert BrokerConfigs().topic_default("retention.ms") == str(168 * 3600 * 1000)
    assert BrokerConfigs({"log.retention.hours": "2"}).topic_default("retention.ms") == "7200000"
    both = {"log.retention.hours": "2", "log.retention.minutes": "3"}
    assert BrokerConfigs(both).topic_default("retention.ms") == "180000"
    assert BrokerConfigs({**both, "log.retention.ms": "4"}).topic_default("retention.ms") == "4"
    assert BrokerConfigs({"log.retention.hours": "-1"}).topic_default("retention.ms") == "-1"
    assert BrokerConfigs().topic_default("flush.ms") == str(LONG_MAX)


def test_dynamic_layers_win_over_static_and_default():
    configs = BrokerConfigs({"log.retention.ms": "1000"})
    configs.set_dynamic({}, {"log.retention.ms": "2000"})
    assert configs.topic_default("retention.ms") == "2000"
    configs.set_dynamic({"log.retention.ms": "3000"}, {"log.retention.ms": "2000"})
    assert configs.topic_default("retention.ms") == "3000"
    assert [(origin.text, origin.source) for origin in configs.topic_origins("retention.ms")] == [
        ("3000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("1000", ConfigSource.STATIC_BROKER_CONFIG),
        ("168", ConfigSource.DEFAULT_CONFIG),
    ]


def test_topics_without_settings_share_one_log_config():
    configs = BrokerConfigs()
    assert configs.log_config({}) is configs.log_config({})
    own = configs.log_config({"cleanup.policy": "compact", "compression.type": "zstd"})
    assert (own["compacted"], own["delete_enabled"], own["compression"]) == (1, 0, 4)


def test_contradicting_topic_configs_are_refused():
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms"):
        validate_topic_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, BrokerConfigs())
    with pytest.raises(ConfigError, match="Unknown topic config name: retention"):
        validate_topic_configs({"retention": "10"}, BrokerConfigs())
    with pytest.raises(ConfigError, match="Tiered Storage"):
        validate_topic_configs({"remote.storage.enable": "true"}, BrokerConfigs())


def test_configs_without_effect_are_named_only_when_set_away_from_their_default():
    configs = BrokerConfigs({"num.io.threads": "16", "num.network.threads": "3", "num.partitions": "7"})
    assert configs.without_effect() == ["num.io.threads"]


def test_properties_are_read_as_java_reads_them():
    text = "# c\n! c\n a = 1\nb:2\nc 3\nd=x\\\n   y\ne\\ f=\\u0041\\t\ng\n"
    assert parse_properties(text) == [
        ("a", "1", 3),
        ("b", "2", 4),
        ("c", "3", 5),
        ("d", "xy", 6),
        ("e f", "A", 8),
        ("g", "", 9),
    ]


def test_toml_tables_become_dotted_keys(tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text(
        'listeners = ["PLAINTEXT://:9092"]\nauto.create.topics.enable = false\n[log]\nretention.hours = 2\n'
    )
    assert load(path) == {
        "listeners": "PLAINTEXT://:9092",
        "auto.create.topics.enable": "false",
        "log.retention.hours": "2",
    }


def test_a_file_with_problems_names_every_one_with_its_line(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nnum.partition=1\nlog.retention.ms=soon\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    first, second = str(caught.value).splitlines()
    assert first.endswith(':2: unknown config "num.partition"; did you mean "num.partitions"?')
    assert ":3: Invalid value soon for configuration log.retention.ms" in second


def test_the_reference_page_has_a_row_for_each_config():
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    public = [key for key in (*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()) if not key.internal]
    assert len(rows) == len(public)
    assert {row.count(" | ") for row in rows} == {5}
    retention = next(row for row in rows if row.startswith("| `retention.ms`"))
    assert "Broker default: `log.retention.ms`, `log.retention.minutes`, `log.retention.hours`." in retention
