"""DescribeClientQuotas and AlterClientQuotas over the wire."""

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

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
