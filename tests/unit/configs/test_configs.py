"""The config table: parsing, validation, synonyms, files, and values in force."""

import pytest

from bowstring.engine.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigError,
    ConfigSource,
    broker_key,
    synonyms,
    validate_topic_configs,
)
from bowstring.engine.configs.config_key import INT, LONG, broker_config, is_typo, topic_config
from bowstring.engine.configs.files import load, parse_properties, with_places
from bowstring.engine.configs.scoped import (
    group_origins,
    validate_client_metrics,
    validate_group_configs,
)
from bowstring.engine.configs.table_bowstring import BOWSTRING
from bowstring.engine.configs.table_cluster import CLUSTER
from bowstring.engine.configs.table_coordinators import COORDINATORS
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from bowstring.engine.configs.table_logs import LOGS
from bowstring.engine.configs.table_remote import REMOTE
from bowstring.engine.configs.table_security import SECURITY
from bowstring.engine.configs.table_server import SERVER
from bowstring.engine.configs.table_topics import HOUR_MS, TOPIC_DEFAULTS
from docs.generate import configs as configs_page

LONG_MAX = 2**63 - 1


@pytest.mark.parametrize("key", [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()], ids=lambda key: key.name)
def test_every_default_is_valid(key):
    assert key.doc.endswith(".")
    if key.default is not None:
        key.parse(key.default)


@pytest.mark.parametrize(
    "key, written, shown",
    [
        (TOPIC_CONFIGS["cleanup.policy"], " compact , delete ", "compact,delete"),
        (TOPIC_CONFIGS["cleanup.policy"], "compact,compact", "compact"),
        (TOPIC_CONFIGS["cleanup.policy"], "", ""),
        (TOPIC_CONFIGS["leader.replication.throttled.replicas"], "0:1, 0:1", "0:1,0:1"),
        (TOPIC_CONFIGS["retention.ms"], " 60000 ", "60000"),
        (TOPIC_CONFIGS["retention.ms"], "+5", "5"),
        (TOPIC_CONFIGS["retention.ms"], "-0001", "-1"),
        (TOPIC_CONFIGS["retention.ms"], str(2**63 - 1), str(2**63 - 1)),
        pytest.param(TOPIC_CONFIGS["retention.ms"], "0" * 5000 + "7", "7", id="5000 zeros"),
        (TOPIC_CONFIGS["retention.ms"], "007", "7"),
        (TOPIC_CONFIGS["retention.ms"], "soon", "soon"),
        (TOPIC_CONFIGS["segment.bytes"], " +2000000", "2000000"),
        (TOPIC_CONFIGS["preallocate"], "TRUE", "true"),
        (TOPIC_CONFIGS["preallocate"], " False ", "false"),
        (TOPIC_CONFIGS["compression.type"], " gzip ", "gzip"),
        (TOPIC_CONFIGS["min.cleanable.dirty.ratio"], "0.50", "0.5"),
        (TOPIC_CONFIGS["min.cleanable.dirty.ratio"], "1e-1", "0.1"),
        (TOPIC_CONFIGS["min.cleanable.dirty.ratio"], "1", "1.0"),
        (TOPIC_CONFIGS["min.cleanable.dirty.ratio"], ".0005", "5.0E-4"),
        (TOPIC_CONFIGS["min.cleanable.dirty.ratio"], "1_0", "1_0"),
        (BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "12300000", "1.23E7"),
        (BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "9999999", "9999999.0"),
        (BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "-0.25f", "-0.25"),
        (BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "Infinity", "Infinity"),
        (BROKER_CONFIGS["broker.session.timeout.ms"], "+9000", "9000"),
        (BROKER_CONFIGS["offsets.topic.replication.factor"], " +3", "3"),
        (BROKER_CONFIGS["principal.builder.class"], " a.B ", "a.B"),
        (GROUPS["consumer.session.timeout.ms"], " +50000", "50000"),
        (CLIENT_METRICS["metrics"], " a. , b. ,a.", "a.,b."),
    ],
)
def test_a_value_is_rendered_as_kafka_writes_what_it_parsed(key, written, shown):
    assert key.rendered(written) == shown


def test_a_topic_config_is_one_row(monkeypatch):
    row = topic_config(
        "shelf.ms",
        LONG,
        "18000000",
        "1..",
        "How long a record stays on the shelf.",
        broker_config("log.shelf.ms", default=None, valid=""),
        broker_config("log.shelf.hours", factor=HOUR_MS, type=INT, default="5"),
    )
    monkeypatch.setitem(TOPIC_CONFIGS, row.name, row)
    for key in row.broker_configs():
        monkeypatch.setitem(BROKER_CONFIGS, key.name, key)
    monkeypatch.setattr(synonyms, "FAMILIES", synonyms.families(TOPIC_CONFIGS))

    assert BrokerConfigs().topic_default("shelf.ms") == row.default
    assert BrokerConfigs({"log.shelf.hours": "2"}).topic_default("shelf.ms") == str(2 * HOUR_MS)
    both = BrokerConfigs({"log.shelf.hours": "2", "log.shelf.ms": "7"})
    assert both.topic_origins("shelf.ms")[0].name == "log.shelf.ms"
    assert both.topic_value("shelf.ms", {}) == 7
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        validate_topic_configs({"shelf.ms": "0"}, BrokerConfigs())
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        broker_key("log.shelf.hours").parse("0")
    page = configs_page.render()
    assert (
        "How long a record stays on the shelf. Broker default: `log.shelf.ms`, `log.shelf.hours`. |" in page
    )
    assert "| `log.shelf.hours` | int | `5` | 1.. | cluster-wide | Default shelf.ms of topics. |" in page


def test_no_config_has_a_row_beside_the_one_it_derives_from():
    tables = (SERVER, LOGS, TOPIC_DEFAULTS, CLUSTER, COORDINATORS, REMOTE, SECURITY, BOWSTRING)
    assert len(BROKER_CONFIGS) == sum(map(len, tables))
    for key in TOPIC_CONFIGS.values():
        assert all(each.name in BROKER_CONFIGS for each in key.set_by)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", str(2**63), "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "-", "Not a number of type LONG"),
        pytest.param("retention.ms", "9" * 5000, "Not a number of type LONG", id="5000 digits"),
        ("cleanup.policy", "delete,shrink", "String must be one of: compact, delete"),
        ("compression.type", "lzma", "String must be one of"),
        ("compression.gzip.level", "0", "Value must be at least 1"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("preallocate", "yes", "true or false"),
        ("leader.replication.throttled.replicas", "1-2", "partition:broker"),
        ("segment.bytes", "1000", "Value must be at least 1048576"),
        ("remote.copy.lag.ms", "-2", "Value must be at least -1"),
        ("remote.copy.lag.bytes", "-2", "Value must be at least -1"),
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
    error = BROKER_CONFIGS["ssl.key.password"].invalid("s3cret", "nonsense")
    assert "s3cret" not in str(error)


def test_unknown_key_names_the_nearest():
    with pytest.raises(ConfigError, match=r'"log.retenton.ms"; did you mean "log.retention.ms"'):
        BrokerConfigs({"log.retenton.ms": "1"})
    with pytest.raises(ConfigError, match="removed ZooKeeper"):
        broker_key("zookeeper.connect")


# Settings that a broker without protection must reject: with a value that enables one, and with one that
# means off.
PROTECTIONS = [
    ("principal.builder.class", "com.example.Builder", None),
    ("sasl.server.callback.handler.class", "com.example.Users", ""),
    ("listener.name.external.plain.sasl.server.callback.handler.class", "com.example.Users", ""),
    ("security.providers", "com.example.Fips", ""),
    ("ssl.protocol", "TLSv1.1", "TLSv1.2"),
    ("listener.name.external.ssl.engine.factory.class", "com.example.Engine", ""),
    ("queued.max.request.bytes", "1000000", "0"),
    ("client.quota.callback.class", "com.example.Quotas", ""),
    ("create.topic.policy.class.name", "com.example.Policy", ""),
    ("alter.config.policy.class.name", "com.example.Policy", ""),
    (
        "group.share.assignors",
        "com.example.Assignor",
        "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    ),
    ("group.share.persister.class.name", "com.example.Persister", None),
    (
        "group.share.dlq.manager.class.name",
        "org.apache.kafka.server.share.dlq.NoOpShareGroupDLQManager",
        None,
    ),
    (
        "group.streams.assignors",
        "sticky,com.example.Assignor",
        "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor",
    ),
    ("group.streams.topology.description.plugin.class", "com.example.Plugin", ""),
]


@pytest.mark.parametrize("name, asking, off", PROTECTIONS, ids=[row[0] for row in PROTECTIONS])
def test_a_protection_that_is_not_enforced_is_named_unless_it_is_off(name, asking, off):
    (reason,) = BrokerConfigs({name: asking}).unenforced()
    assert reason.startswith(f"{name}=") and "is not enforced: " in reason and "Remove the setting" in reason
    assert ("s3cret" in reason) is False
    if off is not None:
        assert BrokerConfigs({name: off}).unenforced() == []
    configs = BrokerConfigs()
    configs.set_dynamic({name: asking}, {})
    assert "migrate-dir" in configs.unenforced()[0]


def test_what_protects_is_not_also_listed_as_without_effect():
    configs = BrokerConfigs(
        {"queued.max.request.bytes": "7", "ssl.provider": "SunJSSE", "num.partitions": "7"}
    )
    assert configs.without_effect() == ["ssl.provider"]
    assert [reason.partition("=")[0] for reason in configs.unenforced()] == ["queued.max.request.bytes"]


def test_a_config_of_a_listener_that_counts_only_for_all_of_them_is_without_effect():
    name = "listener.name.external.connections.max.idle.ms"
    assert BrokerConfigs({name: "7"}).without_effect() == [name]


def test_defaults_and_unknown_dynamic_configs_ask_for_no_protection():
    configs = BrokerConfigs(
        {key.name: key.default for key in BROKER_CONFIGS.values() if key.default is not None}
    )
    configs.set_dynamic({"com.example.plugin.limit": "5"}, {})
    assert configs.unenforced() == []


@pytest.mark.parametrize(
    "name, known, typo",
    [
        ("num.partition", "num.partitions", True),
        ("num.partitoins", "num.partitions", True),
        ("nm.partitoins", "num.partitions", True),
        ("log.retentionms", "log.retention.ms", True),
        ("logs.retention.mss", "log.retention.ms", True),
        ("num.partitions", "num.partitions", True),
        ("retention.ms", "log.retention.ms", False),
        ("num.parts", "num.partitions", False),
        ("xum.xartitionx", "num.partitions", False),
        ("", "ab", True),
        ("abcd", "", False),
    ],
)
def test_a_typo_is_two_letters_at_most(name, known, typo):
    assert is_typo(name, known) is typo
    assert is_typo(known, name) is typo


VENDORS = "confluent.telemetry.enabled=false\nmetric.reporters=com.example.Reporter\nretention.ms=5\n"


def test_a_properties_file_may_hold_keys_of_plugins(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(VENDORS + "confluent.telemetry.enabled=true\n")
    unknown = []
    assert load(path, unknown) == {"metric.reporters": "com.example.Reporter"}
    assert [(each.name, each.value, each.nearest) for each in unknown] == [
        ("confluent.telemetry.enabled", "true", "confluent.schema.registry.url"),
        ("retention.ms", "5", "log.retention.ms"),
    ]
    assert unknown[0].where == f"{path}:4"
    with pytest.raises(ConfigError, match=r'unknown config "confluent.telemetry.enabled"'):
        load(path)
    toml = path.with_suffix(".toml")
    toml.write_text("confluent.telemetry.enabled = false\n")
    with pytest.raises(ConfigError, match="confluent"):
        load(toml, [])


@pytest.mark.parametrize(
    "line, message",
    [
        ("num.partition=1", 'did you mean "num.partitions"'),
        ("log.retnetion.hours=1", 'did you mean "log.retention.hours"'),
        ("super.user=User:a", 'did you mean "super.users"'),
        ("bowstring.no.such=1", "bowstring.no.such"),
        ("ssl.no.such=1", "ssl.no.such"),
        ("listener.name.external.no.such=1", "listener.name.external.no.such"),
        ("authorizer.no.such=1", "authorizer.no.such"),
        ("host.name=127.0.0.1", "set listeners instead"),
        ("quota.producer.default=1000", "bowstring quotas set"),
        ("zookeeper.connect=a:2181", "removed ZooKeeper"),
    ],
)
def test_what_no_plugin_would_call_its_own_stays_refused(tmp_path, line, message):
    path = tmp_path / "server.properties"
    path.write_text(f"num.partitions=2\n{line}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        load(path, [])
    assert f"{path}:2" in str(caught.value)


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


def test_configs_of_kafka_4_4_that_need_tiers_are_stored():
    """As in a Kafka without remote storage, they have no effect; none enables a protection."""
    assert BrokerConfigs().topic_default("remote.copy.lag.bytes") == "-1"
    assert BrokerConfigs({"log.remote.copy.lag.ms": "5"}).topic_default("remote.copy.lag.ms") == "5"
    without_effect = {
        "log.remote.copy.lag.bytes": "9",
        "log.remote.copy.lag.ms": "5",
    }
    configs = BrokerConfigs(without_effect)
    assert (configs.without_effect(), configs.unenforced()) == (list(without_effect), [])


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


def test_groups_take_their_defaults_from_the_broker():
    configs = BrokerConfigs({"group.consumer.session.timeout.ms": "50000"})
    assert group_origins("consumer.session.timeout.ms", configs)[0][1:] == (
        "50000",
        ConfigSource.STATIC_BROKER_CONFIG,
    )
    for name, key in GROUPS.items():
        assert group_origins(name, BrokerConfigs())[-1].text == key.default
    validate_group_configs({}, BrokerConfigs())
    by_class = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
    configs = BrokerConfigs({"group.streams.assignors": by_class})
    assert group_origins("streams.assignor.name", configs)[0].text == "sticky"
    validate_group_configs({"streams.assignor.name": "sticky"}, configs)
    with pytest.raises(ConfigError, match="different and not empty"):
        BrokerConfigs({"group.streams.rack.aware.assignment.tags": "a,a"}).value(
            "group.streams.rack.aware.assignment.tags"
        )


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("no.such", "1", "Unknown group config name: no.such"),
        ("consumer.session.timeout.ms", "x", "Not a number"),
        ("consumer.session.timeout.ms", "", "Not a number"),
        ("consumer.session.timeout.ms", "44999", "greater than or equal to group.consumer.min.session"),
        ("consumer.session.timeout.ms", "60001", "less than or equal to group.consumer.max.session"),
        ("streams.num.standby.replicas", "3", "less than or equal to group.streams.max.standby.replicas"),
        ("share.delivery.count.limit", "11", "less than or equal to group.share.max.delivery.count.limit"),
        (
            "streams.task.offset.interval.ms",
            "14999",
            "greater than or equal to group.streams.min.task.offset",
        ),
        ("streams.num.warmup.replicas", "21", "less than or equal to group.streams.max.warmup.replicas"),
        ("errors.deadletterqueue.topic.name", " __letters", "must not start with '__'"),
        ("errors.deadletterqueue.copy.record.enable", "perhaps", "copy.record.enable"),
        ("streams.assignor.name", "mine", r"'mine' is not a registered task assignor.*\[sticky\]"),
        ("streams.rack.aware.assignment.tags", "zone,rack,zone", "different and not empty"),
        ("streams.rack.aware.assignment.tags", "zone,,rack", "different and not empty"),
        ("share.auto.offset.reset", "", "must be earliest, latest or by_duration"),
        ("share.auto.offset.reset", "by_duration:P", "must be earliest"),
        ("share.auto.offset.reset", "by_duration:PT", "must be earliest"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "must be earliest"),
        ("share.auto.offset.reset", "by_duration:PT٣S", "must be earliest"),
        ("share.auto.offset.reset", f"by_duration:P{'9' * 400}D", "must be earliest"),
        ("share.auto.offset.reset", "by_duration:P999999999999999999D", "must be earliest"),
        ("share.auto.offset.reset", "by_duration:PT9223372036854775808S", "must be earliest"),
    ],
)
def test_group_configs_that_cannot_be_are_refused(name, text, message):
    with pytest.raises(ConfigError, match=message):
        validate_group_configs({name: text}, BrokerConfigs())


def test_a_groups_session_outlives_its_heartbeat():
    configs = BrokerConfigs({"group.consumer.min.session.timeout.ms": "1"})
    both = {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "6000"}
    with pytest.raises(ConfigError, match=r"session.timeout.ms must be greater than consumer.heartbeat"):
        validate_group_configs(both, configs)
    validate_group_configs(both | {"consumer.session.timeout.ms": "6001"}, configs)
    for reset in ("earliest", "by_duration:P1D", "by_duration:PT1H2M3.5S", "by_duration:p1dt1h"):
        validate_group_configs({"share.auto.offset.reset": reset}, configs)


@pytest.mark.parametrize(
    "match",
    [
        "client_id",
        "nobody=1",
        "client_id=[",
        "client_id=a,,client_id=b",
        "client_id=a{99999999999}",
        pytest.param("client_id=" + "(" * 5000 + ")" * 5000, id="5000 parentheses"),
    ],
)
def test_client_patterns_that_cannot_be_are_refused(match):
    with pytest.raises(ConfigError, match=r"client matching pattern|no item may be empty"):
        validate_client_metrics({"match": match})


def test_client_patterns_are_javas():
    validate_client_metrics({"match": r"client_id=\p{Alpha}+-\Qa[\E.*,client_software_name=kafka=x"})


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        ("super.users names 'alice'", [3]),
        ("super.users.more is unknown, as is my-super.users", []),
        ("/etc/keys.pem: the private key does not belong to the certificate", [4]),
        ("/etc/keys.pem.old cannot be read", []),
        ("cannot listen on 127.0.0.1:9092: Address already in use", [1]),
        ("listeners: two listeners are called A", [1]),
        ("all listeners have it; see ssl.*", []),
        ("it has super.users and /etc/keys.pem", [3, 4]),
    ],
)
def test_errors_get_the_places_of_what_they_name(tmp_path, message, lines):
    path = tmp_path / "server.properties"
    path.write_text(
        "listeners=A://127.0.0.1:9092\n\nsuper.users=alice\nssl.keystore.location=/etc/keys.pem\n"
    )
    names = {1: "listeners", 3: "super.users", 4: "ssl.keystore.location"}
    places = ", ".join(f"{path}:{line} ({names[line]})" for line in lines)
    assert with_places(message, path) == (f"{message}\n  see {places}" if lines else message)


def test_errors_that_have_a_place_already(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("super.users=alice\n")
    for message in (f"{path}:1: super.users", "super.users"):
        assert with_places(message, None) == message
    assert with_places(f"{path}:1: super.users", path) == f"{path}:1: super.users"
    assert with_places("super.users", tmp_path / "none.properties") == "super.users"
