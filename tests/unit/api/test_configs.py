"""Configs over the wire: described, altered, applied at once and after a restart."""

from pathlib import Path

import pytest

import bowstring
from bowstring.clients.admin.configs import OWN_TOPIC_CONFIGS
from bowstring.engine import event_log
from bowstring.engine.configs import TOPIC_CONFIGS
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_configs as ac
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import describe_configs as dc
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages import list_config_resources as lcr

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ENGINE = Path(event_log.__file__).resolve().parent
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(served, kind, name, keys=None, version=4, **fields):
    resource = dc.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = served.ask(dc.DescribeConfigsRequest(resources=[resource], **fields), version).results
    return result


def values(served, kind, name, *keys):
    result = describe(served, kind, name, list(keys))
    assert result.error_code == 0, result.error_message
    return {each.name: (each.value, each.config_source) for each in result.configs}


def alter(served, kind, name, *changes, **fields):
    resource = iac.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            iac.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = iac.IncrementalAlterConfigsRequest(resources=[resource], **fields)
    (response,) = served.ask(request).responses
    return Errors.of(response.error_code), response.error_message


def test_a_topic_shows_every_config_with_its_source(served):
    served.create_topic("t", retention_ms="5")
    result = describe(served, TOPIC, "t", include_synonyms=True, include_documentation=True)
    found = {each.name: each for each in result.configs}
    assert len(found) == 37  # Kafka's without internal.segment.bytes
    retention = found["retention.ms"]
    assert (retention.value, retention.config_source, retention.config_type) == ("5", 1, 5)
    assert [(each.name, each.value, each.source) for each in retention.synonyms] == [("retention.ms", "5", 1)]
    assert "segments" in retention.documentation
    assert all(each.read_only is False and each.is_sensitive is False for each in result.configs)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_shows_what_it_can(served, version):
    served.create_topic("t")
    result = describe(served, TOPIC, "t", ["segment.bytes"], version, include_synonyms=True)
    (config,) = result.configs
    assert config.value == "1073741824"
    assert config.config_type == (3 if version >= 3 else 0)
    assert [each.name for each in config.synonyms] == ["log.segment.bytes"]


def test_the_broker_shows_static_dynamic_and_default(serve):
    served = serve(log_retention_hours="2", ssl_key_password="")
    assert values(served, BROKER, "1", "log.retention.hours", "log.retention.ms", "node.id") == {
        "log.retention.hours": ("2", 4),
        "log.retention.ms": (None, 5),
        "node.id": ("1", 5),
    }
    (secret,) = describe(served, BROKER, "1", ["ssl.key.password"], include_synonyms=True).configs
    assert (secret.value, secret.is_sensitive) == (None, True)
    assert {each.value for each in secret.synonyms} == {None}
    read_only = {each.name: each.read_only for each in describe(served, BROKER, "1").configs}
    assert read_only["num.partitions"] and not read_only["log.retention.ms"]


@pytest.mark.parametrize(
    "kind, name, error",
    [
        (TOPIC, "none", Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", Errors.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", Errors.INVALID_REQUEST),
        (BROKER, "x", Errors.INVALID_REQUEST),
        (BROKER, "²", Errors.INVALID_REQUEST),
        (BROKER, "9" * 5000, Errors.INVALID_REQUEST),
        (LOGGER, "²", Errors.INVALID_REQUEST),
        (LOGGER, "", Errors.INVALID_REQUEST),
        (CLIENT_METRICS, "", Errors.INVALID_REQUEST),
        (GROUP, "", Errors.INVALID_REQUEST),
        (64, "x", Errors.INVALID_REQUEST),
    ],
)
def test_resources_that_are_not_there(served, kind, name, error):
    result = describe(served, kind, name)
    assert Errors.of(result.error_code) is error
    assert result.configs == []


def test_topic_configs_change_one_by_one_and_survive_a_restart(served):
    served.create_topic("t", retention_ms="5", cleanup_policy="compact")
    assert alter(
        served,
        TOPIC,
        "t",
        ("segment.ms", SET, "7"),
        ("retention.ms", DELETE, None),
        ("cleanup.policy", APPEND, "delete"),
    ) == (Errors.NONE, None)
    expected = {
        "segment.ms": ("7", 1),
        "retention.ms": ("604800000", 5),
        "cleanup.policy": ("compact,delete", 1),
    }
    assert values(served, TOPIC, "t", *expected) == expected
    served.restart()
    assert values(served, TOPIC, "t", *expected) == expected


@pytest.mark.parametrize(
    "kind, config, value, default, source",
    [
        (GROUP, "consumer.session.timeout.ms", "50000", "45000", 8),
        (CLIENT_METRICS, "interval.ms", "500", "300000", 7),
    ],
)
def test_groups_and_client_metrics_have_configs(served, caplog, kind, config, value, default, source):
    assert values(served, kind, "x", config) == {config: (default, 5)}
    assert alter(served, kind, "x", (config, SET, value)) == (Errors.NONE, None)
    is_warned = any("no effect yet" in record.getMessage() for record in caplog.records)
    assert is_warned == (kind == CLIENT_METRICS)
    served.restart()
    assert values(served, kind, "x", config) == {config: (value, source)}
    assert listed(served, 1, kind) == (Errors.NONE, {(kind, "x")})
    assert alter(served, kind, "x", (config, DELETE, None)) == (Errors.NONE, None)
    assert listed(served, 1, kind) == (Errors.NONE, set())


def test_values_in_force_are_shown_as_parsed_and_kept_as_written(serve):
    served = serve(log_cleanup_policy=" compact , delete ", log_flush_interval_ms=" +7 ")
    served.create_topic("t", retention_ms=" 60000 ", preallocate="TRUE", min_cleanable_dirty_ratio="1e-1")
    assert values(served, TOPIC, "t", "retention.ms", "preallocate", "min.cleanable.dirty.ratio") == {
        "retention.ms": ("60000", 1),
        "preallocate": ("true", 1),
        "min.cleanable.dirty.ratio": ("0.1", 1),
    }
    (retention,) = describe(served, TOPIC, "t", ["retention.ms"], include_synonyms=True).configs
    assert [(each.value, each.source) for each in retention.synonyms] == [("60000", 1)]
    assert values(served, TOPIC, "t", "cleanup.policy", "flush.ms") == {
        "cleanup.policy": ("compact,delete", 4),
        "flush.ms": ("7", 4),
    }
    assert values(served, BROKER, "1", "log.cleanup.policy") == {"log.cleanup.policy": ("compact,delete", 4)}

    for kind, name, config in (
        (BROKER, "", "log.retention.ms"),
        (GROUP, "g", "consumer.session.timeout.ms"),
        (CLIENT_METRICS, "m", "interval.ms"),
    ):
        assert alter(served, kind, name, (config, SET, " +50000")) == (Errors.NONE, None)
    # As in Kafka, the cluster's defaults are shown as written, a broker's values in force as parsed.
    assert values(served, BROKER, "", "log.retention.ms") == {"log.retention.ms": (" +50000", 3)}
    assert values(served, BROKER, "1", "log.retention.ms") == {"log.retention.ms": ("50000", 3)}
    assert values(served, GROUP, "g", "consumer.session.timeout.ms") == {
        "consumer.session.timeout.ms": ("50000", 8)
    }
    assert values(served, CLIENT_METRICS, "m", "interval.ms") == {"interval.ms": ("50000", 7)}


def test_what_kafka_does_not_have_is_shown_where_it_is_set_or_asked_for(served):
    served.create_topic("plain")
    answer = served.ask(
        ct.CreateTopicsRequest(
            topics=[ct.CreatableTopic(name="other", num_partitions=1, replication_factor=1)]
        )
    )
    assert not [each.name for each in answer.topics[0].configs if "bowstring" in each.name]
    own = "bowstring.durability"
    assert own not in {each.name for each in describe(served, TOPIC, "plain").configs}
    assert values(served, TOPIC, "plain", own) == {own: ("os", 5)}
    with bowstring.Admin(f"127.0.0.1:{served.broker.port}") as admin:
        assert admin.describe_configs("topic", "plain")[own].value == "os"
        assert len(admin.describe_configs("topic", "plain")) == 42
    assert alter(served, TOPIC, "plain", (own, SET, "commit"))[0] is Errors.NONE
    assert own in {each.name for each in describe(served, TOPIC, "plain").configs}
    assert set(OWN_TOPIC_CONFIGS) == {name for name, key in TOPIC_CONFIGS.items() if key.is_own}


def test_a_refused_change_changes_nothing(served):
    served.create_topic("t")
    error, message = alter(served, TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", SET, "x"))
    assert error is Errors.INVALID_CONFIG
    assert "retention.ms" in message
    assert values(served, TOPIC, "t", "segment.ms") == {"segment.ms": ("604800000", 5)}
    assert alter(served, TOPIC, "none", ("segment.ms", SET, "7"))[0] is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_validate_only_changes_nothing(served):
    served.create_topic("t")
    assert alter(served, TOPIC, "t", ("segment.ms", SET, "7"), validate_only=True)[0] is Errors.NONE
    assert values(served, TOPIC, "t", "segment.ms") == {"segment.ms": ("604800000", 5)}


def test_dynamic_broker_configs_are_the_topics_new_defaults(served):
    served.create_topic("t")
    assert alter(served, BROKER, "", ("log.retention.ms", SET, "1000"))[0] is Errors.NONE
    assert values(served, TOPIC, "t", "retention.ms") == {"retention.ms": ("1000", 3)}
    assert alter(served, BROKER, "1", ("log.retention.ms", SET, "2000"))[0] is Errors.NONE
    assert values(served, TOPIC, "t", "retention.ms") == {"retention.ms": ("2000", 2)}
    assert values(served, BROKER, "", "log.retention.ms") == {"log.retention.ms": ("1000", 3)}
    served.restart()
    assert values(served, TOPIC, "t", "retention.ms") == {"retention.ms": ("2000", 2)}
    assert alter(served, BROKER, "1", ("log.retention.ms", DELETE, None))[0] is Errors.NONE
    assert values(served, TOPIC, "t", "retention.ms") == {"retention.ms": ("1000", 3)}


def test_a_read_only_broker_config_is_refused(served):
    error, message = alter(served, BROKER, "1", ("num.partitions", SET, "3"))
    assert (error, message) == (
        Errors.INVALID_REQUEST,
        "Cannot update these configs dynamically: num.partitions",
    )


def test_a_smaller_message_limit_is_in_force_at_once(served):
    from bowstring._native.record.encode import encode_batch

    served.create_topic("t")
    batch = encode_batch([(None, b"v" * 2000, 1_700_000_000_000, [])])
    assert served.produce("t", batch).error_code == 0
    alter(served, TOPIC, "t", ("max.message.bytes", SET, "1000"))
    assert Errors.of(served.produce("t", batch).error_code) is Errors.MESSAGE_TOO_LARGE


def test_old_alter_configs_replaces_everything(served):
    served.create_topic("t", retention_ms="5")
    resource = ac.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[ac.AlterableConfig(name="segment.ms", value="7")],
    )
    for version in (0, 1, 2):
        (response,) = served.ask(ac.AlterConfigsRequest(resources=[resource]), version).responses
        assert response.error_code == 0
    assert values(served, TOPIC, "t", "segment.ms", "retention.ms") == {
        "segment.ms": ("7", 1),
        "retention.ms": ("604800000", 5),
    }
    twice = served.ask(ac.AlterConfigsRequest(resources=[resource, resource])).responses
    assert {Errors.of(each.error_code) for each in twice} == {Errors.INVALID_REQUEST}


@pytest.mark.parametrize("name", ["x", "²", "-²", "9" * 5000, "-1", "2"])
@pytest.mark.parametrize("kind", [BROKER, LOGGER])
def test_changes_of_what_is_not_this_broker(served, kind, name):
    assert alter(served, kind, name, ("log.retention.ms", SET, "1"))[0] is Errors.INVALID_REQUEST


def test_a_config_that_only_a_plug_in_has_is_shown_without_its_value(served):
    served.engine.configs.set_dynamic({"acme.own": "secret"}, {"acme.key": "secret"})
    for name, key, source in [("", "acme.key", 3), ("1", "acme.key", 3), ("1", "acme.own", 2)]:
        (found,) = describe(served, BROKER, name, [key], include_synonyms=True).configs
        assert (found.name, found.value, found.config_type) == (key, None, 0)
        assert found.is_sensitive and found.read_only and found.config_source == source
        assert {each.value for each in found.synonyms} == {None}


def test_log_levels_are_described_and_set(served):
    before = values(served, LOGGER, "1", "bowstring")
    try:
        assert alter(served, LOGGER, "1", ("bowstring", SET, "DEBUG"))[0] is Errors.NONE
        assert values(served, LOGGER, "1", "bowstring") == {"bowstring": ("DEBUG", 6)}
        assert alter(served, LOGGER, "1", ("bowstring", SET, "LOUD"))[0] is Errors.INVALID_CONFIG
        assert alter(served, LOGGER, "1", ("none", SET, "INFO"))[0] is Errors.INVALID_CONFIG
        assert alter(served, LOGGER, "1", ("bowstring", APPEND, "INFO"))[0] is Errors.INVALID_REQUEST
    finally:
        alter(served, LOGGER, "1", ("bowstring", SET, before["bowstring"][0]))


def test_the_logger_of_a_package_has_a_level_of_its_own(served, caplog):
    def warn():
        caplog.clear()
        exec(
            "event_log.warning('denied')", {"event_log": event_log, "__name__": "bowstring.engine.security.x"}
        )
        exec("event_log.warning('full')", {"event_log": event_log, "__name__": "bowstring.engine.storage.x"})
        return [(record.name, record.getMessage()) for record in caplog.records]

    assert warn() == [("bowstring.security", "denied"), ("bowstring.storage", "full")]
    try:
        assert alter(served, LOGGER, "1", ("bowstring.security", SET, "ERROR"))[0] is Errors.NONE
        assert values(served, LOGGER, "1", "bowstring.security") == {"bowstring.security": ("ERROR", 6)}
        assert warn() == [("bowstring.storage", "full")]
        assert alter(served, LOGGER, "1", ("root", SET, "FATAL"))[0] is Errors.NONE
        assert warn() == []
    finally:
        alter(served, LOGGER, "1", ("root", SET, "INFO"))
        assert alter(served, LOGGER, "1", ("bowstring.security", DELETE, None))[0] is Errors.NONE
    assert values(served, LOGGER, "1", "bowstring.security") == {"bowstring.security": ("INFO", 6)}
    assert len(warn()) == 2


def test_every_package_that_logs_has_a_logger():
    logging_ones = {
        path.relative_to(ENGINE).parts[0]
        for path in ENGINE.rglob("*.py")
        if "event_log." in path.read_text(encoding="utf-8") and len(path.relative_to(ENGINE).parts) > 1
    }
    assert logging_ones <= set(event_log.PACKAGES)


def listed(served, version, *types):
    response = served.ask(lcr.ListConfigResourcesRequest(resource_types=list(types)), version)
    return Errors.of(response.error_code), {
        (each.resource_type, each.resource_name) for each in response.config_resources
    }


def test_resources_are_listed(served):
    served.create_topic("t")
    everything = {(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")}
    assert listed(served, 1) == (Errors.NONE, everything)
    assert listed(served, 1, TOPIC) == (Errors.NONE, {(TOPIC, "t")})
    assert listed(served, 1, 99) == (Errors.UNSUPPORTED_VERSION, set())
    assert listed(served, 0) == (Errors.NONE, set())
    alter(served, GROUP, "g", ("share.isolation.level", SET, "read_committed"))
    alter(served, CLIENT_METRICS, "m", ("interval.ms", SET, "500"))
    assert listed(served, 1) == (Errors.NONE, everything | {(GROUP, "g"), (CLIENT_METRICS, "m")})
    # Version 0 lists client metrics subscriptions only, without the type of a resource.
    assert {name for _, name in listed(served, 0)[1]} == {"m"}
