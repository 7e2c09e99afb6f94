"""Administration against a broker."""

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.admin.results import NewTopic
from bowstring.clients.errors import (
    BrokerError,
    ConfigError,
    TopicExistsError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import MAX_TIMESTAMP, TopicPartition
from tests.support.waiting import HANG_S


def test_topics(admin, new_topic):
    name = new_topic(partitions=3, retention_ms=12345)
    info = admin.describe_topic(name)
    assert sorted(info.partitions) == [0, 1, 2] and info.topic_id != bytes(16)
    assert all(p.leader in p.isr for p in info.partitions.values())
    assert name in admin.topics()
    with pytest.raises(TopicExistsError):
        admin.create_topic(name, 1)
    admin.create_partitions({name: 5})
    assert len(admin.describe_topic(name).partitions) == 5
    with pytest.raises(BrokerError):
        admin.create_partitions({name: 2})


def test_one_refused_topic_does_not_refuse_the_others(admin, new_topic):
    there, fresh = new_topic(), new_topic() + "-fresh"
    with pytest.raises(TopicExistsError):
        admin.create_topics([NewTopic(there, 1), NewTopic(fresh, 1)])
    assert fresh in admin.topics()
    with pytest.raises(UnknownTopicError):
        admin.delete_topics([fresh, "not-there"])
    assert fresh not in admin.topics()


def test_validate_only_creates_nothing(admin):
    admin.create_topics([NewTopic("only-checked", 2)], validate_only=True)
    assert "only-checked" not in admin.topics()


def test_unknown_topic(admin):
    with pytest.raises(UnknownTopicError, match=r"bowstring topics create"):
        admin.describe_topic("nowhere")
    with pytest.raises(UnknownTopicError):
        admin.delete_topics(["nowhere"])


def test_configs(admin, new_topic):
    name = new_topic(retention_ms=1000)
    found = admin.describe_configs("topic", name)
    assert found["retention.ms"].value == "1000" and not found["retention.ms"].is_default
    assert found["flush.ms"].is_default
    admin.alter_configs("topic", name, set={"max.message.bytes": "9999"}, delete=["retention.ms"])
    found = admin.describe_configs("topic", name)
    assert found["max.message.bytes"].value == "9999" and found["retention.ms"].is_default
    admin.alter_configs("topic", name, append={"cleanup.policy": "compact"})
    assert sorted(admin.describe_configs("topic", name)["cleanup.policy"].value.split(",")) == [
        "compact",
        "delete",
    ]
    admin.alter_configs("topic", name, subtract={"cleanup.policy": "delete"})
    assert admin.describe_configs("topic", name)["cleanup.policy"].value == "compact"
    with pytest.raises(BrokerError, match=r"nonsense"):
        admin.alter_configs("topic", name, set={"nonsense": "1"})
    documented = admin.describe_configs("topic", name, documentation=True, names=["retention.ms"])
    assert list(documented) == ["retention.ms"] and documented["retention.ms"].documentation


def test_broker_configs(admin):
    broker = str(admin.describe_cluster().brokers[0].id)
    assert "log.retention.hours" in admin.describe_configs("broker", broker)
    with pytest.raises(ConfigError, match=r"no broker '77'"):
        admin.describe_configs("broker", "77")
    with pytest.raises(ConfigError, match=r"not of 'planet'"):
        admin.describe_configs("planet", "x")


def test_offsets_and_delete_records(bootstrap, admin, new_topic):
    name = new_topic(partitions=2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    with Producer(bootstrap) as producer:
        for i in range(10):
            producer.send(name, b"x", partition=0, timestamp=1000 - i)
    assert admin.end_offsets([first, second]) == {first: 10, second: 0}
    assert admin.list_offsets({first: MAX_TIMESTAMP})[first][:2] == (0, 1000)
    assert admin.delete_records({first: 4, second: -1}) == {first: 4, second: 0}
    assert admin.beginning_offsets([first])[first] == 4
    with pytest.raises(BrokerError, match=r"OFFSET_OUT_OF_RANGE"):
        admin.delete_records({first: 11})


def test_cluster_and_log_dirs(bootstrap, admin, new_topic):
    name = new_topic()
    cluster = admin.describe_cluster()
    host, port = bootstrap.split(":")
    assert (cluster.brokers[0].host, cluster.brokers[0].port) == (host, int(port))
    assert cluster.cluster_id and cluster.controller_id == cluster.brokers[0].id
    with Producer(bootstrap) as producer:
        producer.send(name, b"x" * 1000).result(HANG_S)
    (directory,) = admin.describe_log_dirs()[cluster.brokers[0].id]
    assert directory.error is None and directory.replicas[TopicPartition(name, 0)].size_bytes > 1000
    (directory,) = admin.describe_log_dirs_of(cluster.brokers[0].id, [TopicPartition(name, 0)])
    assert set(directory.replicas) == {TopicPartition(name, 0)}


def test_a_closed_admin(bootstrap):
    admin = Admin(bootstrap)
    admin.close()
    with pytest.raises(Exception, match=r"closed"):
        admin.topics()


def test_client_quotas(admin, new_topic):
    user, client = f"user-{new_topic()}", f"client-{new_topic()}"
    pair = {"user": user, "client-id": client}
    admin.alter_client_quotas({"user": user}, {"producer_byte_rate": 1000, "request_percentage": 12.5})
    admin.alter_client_quotas(pair, {"consumer_byte_rate": 2000})
    alone = frozenset({("user", user)})
    both = frozenset(pair.items())
    found = admin.describe_client_quotas({"user": user})
    assert found == {
        alone: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        both: {"consumer_byte_rate": 2000.0},
    }
    assert admin.describe_client_quotas({"user": user}, strict=True).keys() == {alone}
    assert both in admin.describe_client_quotas(any_name=("user", "client-id"))
    admin.alter_client_quotas({"user": user}, {"producer_byte_rate": None, "request_percentage": None})
    admin.alter_client_quotas(pair, {"consumer_byte_rate": None})
    assert not admin.describe_client_quotas({"user": user})
    with pytest.raises(BrokerError, match=r"producer_bite_rate"):
        admin.alter_client_quotas({"user": user}, {"producer_bite_rate": 1})
    with pytest.raises(ConfigError, match=r"not of 'group'"):
        admin.describe_client_quotas({"group": "g"})
