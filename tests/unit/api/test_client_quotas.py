"""DescribeClientQuotas and AlterClientQuotas over the wire."""

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages import api_versions as av
from bowstring.protocol.messages import create_partitions as cp
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import produce as p
from bowstring.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
QUOTAS = (
    ({"user": "alice"}, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}),
    ({"user": None}, {"consumer_byte_rate": 2000.0}),
    ({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 3000.0}),
    ({"user": "alice", "client-id": None}, {"producer_byte_rate": 4000.0}),
    ({"client-id": "app"}, {"controller_mutation_rate": 5.0}),
    ({"ip": "127.0.0.9"}, {"connection_creation_rate": 6.0}),
    ({"ip": None}, {"connection_creation_rate": 700.0}),
)


def altered(served, *changes, version=1, **options):
    entries = [
        acq.AlterClientQuotasRequestEntryData(
            entity=[acq.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[
                acq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()
            ],
        )
        for entity, values in changes
    ]
    return served.ask(acq.AlterClientQuotasRequest(entries=entries, **options), version).entries


def described(served, *components, strict=False, version=1):
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
        ],
        strict=strict,
    )
    return served.ask(request, version)


def found(answer):
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries
    ]


def entities(*indexes):
    return [dict(sorted(QUOTAS[i][0].items())) for i in indexes]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_come_back_also_after_a_restart(served, version):
    assert {each.error_code for each in altered(served, *QUOTAS, version=version)} == {0}
    expected = [(dict(sorted(entity.items())), values) for entity, values in QUOTAS]
    assert found(described(served, version=version)) == expected
    served.restart()
    assert found(described(served, version=version)) == expected
    altered(served, ({"user": None}, {"consumer_byte_rate": None}), version=version)
    assert found(described(served, version=version)) == expected[:1] + expected[2:]


def test_filters(served):
    altered(served, *QUOTAS)

    def matched(*components, **options):
        return [entity for entity, _ in found(described(served, *components, **options))]

    assert matched(("user", EXACT, "alice")) == entities(0, 2, 3)
    assert matched(("user", EXACT, "alice"), strict=True) == entities(0)
    assert matched(("user", DEFAULT, None)) == entities(1)
    assert matched(("user", SPECIFIED, None)) == entities(0, 1, 2, 3)
    assert matched(("user", EXACT, "alice"), ("client-id", DEFAULT, None)) == entities(3)
    assert matched(("user", SPECIFIED, None), ("client-id", SPECIFIED, None), strict=True) == entities(2, 3)
    assert matched(("client-id", SPECIFIED, None), strict=True) == entities(4)
    assert matched(("ip", SPECIFIED, None)) == entities(5, 6)
    assert matched(("ip", EXACT, "10.1.1.1")) == []
    assert matched(strict=True) == []


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "x")], Errors.INVALID_REQUEST),
        ([("user", EXACT, "x"), ("user", DEFAULT, None)], Errors.INVALID_REQUEST),
        ([("group", EXACT, "x")], Errors.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], Errors.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], Errors.INVALID_REQUEST),
        ([("user", SPECIFIED, "x")], Errors.INVALID_REQUEST),
        ([("user", 7, None)], Errors.INVALID_REQUEST),
        ([("ip", DEFAULT, None), ("user", DEFAULT, None)], Errors.INVALID_REQUEST),
    ],
)
def test_filters_that_match_nothing_are_refused(served, components, error):
    answer = described(served, *components)
    assert (Errors.of(answer.error_code), answer.entries) == (error, None)
    assert answer.error_message


def test_what_the_controller_refuses_changes_nothing(served):
    bad, good = altered(
        served,
        ({"user": "alice"}, {"producer_byte_rate": -1.0}),
        ({"user": "bob"}, {"producer_byte_rate": 1.0}),
    )
    assert Errors.of(bad.error_code) is Errors.INVALID_REQUEST
    assert [(each.entity_type, each.entity_name) for each in bad.entity] == [("user", "alice")]
    assert (good.error_code, good.error_message) == (0, None)
    assert [entity for entity, _ in found(described(served))] == [{"user": "bob"}]
    ((unknown),) = altered(served, ({"ip": "no such host.invalid"}, {"connection_creation_rate": 1.0}))
    assert "not a valid IP" in unknown.error_message


def test_a_validation_changes_nothing(served):
    (valid,) = altered(served, ({"user": "x"}, {"producer_byte_rate": 1.0}), validate_only=True)
    assert valid.error_code == 0
    assert found(described(served)) == []


# ---------------------------------------------------------------- in force


def throttled(served, topic):
    data = p.TopicProduceData(
        name=topic,
        partition_data=[
            p.PartitionProduceData(
                index=0, records=encode_batch([(None, b"x" * 1000, 1_700_000_000_000, [])])
            )
        ],
    )
    client = served.connect()
    return client.ask(p.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9).throttle_time_ms


def test_quotas_are_in_force_once_they_are_committed_and_after_a_restart(served):
    served.create_topic("t")
    assert throttled(served, "t") == 0
    altered(served, ({"user": "ANONYMOUS"}, {"producer_byte_rate": 1.0}))
    assert throttled(served, "t") > 1000
    served.restart()
    assert throttled(served, "t") > 1000
    altered(served, ({"user": "ANONYMOUS"}, {"producer_byte_rate": None}))
    assert throttled(served, "t") == 0


def test_time_for_other_requests_is_limited(served):
    altered(served, ({"user": None}, {"request_percentage": 1e-9}))
    assert served.ask(md.MetadataRequest(topics=None)).throttle_time_ms == 1000
    other = served.connect()
    assert (
        other.ask(
            av.ApiVersionsRequest(client_software_name="n", client_software_version="1"), 3
        ).throttle_time_ms
        == 1000
    )
    for client in (served.client, other):
        client.close()
    fresh = served.connect()
    request = acq.AlterClientQuotasRequest(
        entries=[
            acq.AlterClientQuotasRequestEntryData(
                entity=[acq.EntityData(entity_type="user", entity_name=None)],
                ops=[acq.OpData(key="request_percentage", remove=True)],
            )
        ]
    )
    assert fresh.ask(request).entries[0].error_code == 0
    assert served.connect().ask(md.MetadataRequest(topics=None)).throttle_time_ms == 0


def creation(name, partitions):
    return ct.CreateTopicsRequest(
        topics=[ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    )


def test_created_and_deleted_partitions_are_limited(served):
    altered(served, ({"client-id": "tool"}, {"controller_mutation_rate": 0.001}))

    def ask(request, version):
        client = WireClient(served.broker.port, client_id="tool")  # one that waits is not read from
        try:
            return client.ask(request, version)
        finally:
            client.close()

    first = ask(creation("a", 3), 7)
    assert (first.throttle_time_ms, first.topics[0].error_code) == (0, 0)
    refused = ask(creation("b", 1), 7)
    assert Errors.of(refused.topics[0].error_code) is Errors.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms > 1000
    more = ask(
        cp.CreatePartitionsRequest(topics=[cp.CreatePartitionsTopic(name="a", count=4, assignments=None)]), 3
    )
    assert Errors.of(more.results[0].error_code) is Errors.THROTTLING_QUOTA_EXCEEDED
    gone = ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="a")]), 6)
    assert Errors.of(gone.responses[0].error_code) is Errors.THROTTLING_QUOTA_EXCEEDED
    older = ask(creation("b", 1), 5)
    assert older.topics[0].error_code == 0, "older clients only wait"
    assert older.throttle_time_ms > refused.throttle_time_ms
    served.create_topic("c")


def test_topics_that_are_made_on_demand_are_limited_and_the_brokers_own_are_not(served):
    altered(served, ({"user": "ANONYMOUS"}, {"controller_mutation_rate": 0.001}))
    tool = served.connect()
    assert tool.ask(creation("a", 3), 7).topics[0].error_code == 0
    named = md.MetadataRequest(
        topics=[md.MetadataRequestTopic(name="on-demand")], allow_auto_topic_creation=True
    )
    assert served.connect().ask(named).topics[0].error_code != 0
    assert "on-demand" not in served.engine.metadata.image.topics
    served.ask(fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    wait_until(lambda: "__consumer_offsets" in served.engine.metadata.image.topics)
