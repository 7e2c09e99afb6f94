"""Decisions about client quotas, and the image of them."""

import math

import pytest

from bowstring.engine.controller.client_quotas import alter_client_quotas
from bowstring.engine.metadata.client_quotas_image import ClientQuotasImage, entity_of
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)

INVALID = Errors.INVALID_REQUEST.code
ALICE = {"user": "alice"}


def change(entity, **values):
    ops = [
        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in values.items()
    ]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return AlterClientQuotasRequestEntryData(entity=parts, ops=ops)


class Quotas:
    def __init__(self):
        self.image = ClientQuotasImage()

    def alter(self, *entries, **options):
        decision = alter_client_quotas(
            self.image, AlterClientQuotasRequest(entries=list(entries), **options), unknown_hosts={"nowhere"}
        )
        for record in decision.records:
            self.image.apply(record)
        return [(each.error_code, each.error_message) for each in decision.answer.entries]

    def of(self, **entity):
        return self.image.entities.get(
            entity_of((kind.replace("_", "-"), name) for kind, name in entity.items())
        )


@pytest.fixture
def quotas():
    return Quotas()


def test_quotas_are_set_changed_and_removed(quotas):
    assert quotas.alter(change(ALICE, producer_byte_rate=1000.0, request_percentage=50.5)) == [(0, None)]
    assert quotas.of(user="alice") == {"producer_byte_rate": 1000.0, "request_percentage": 50.5}
    assert quotas.alter(change(ALICE, producer_byte_rate=2000.0, request_percentage=None)) == [(0, None)]
    assert quotas.of(user="alice") == {"producer_byte_rate": 2000.0}
    quotas.alter(change(ALICE, producer_byte_rate=None))
    assert quotas.of(user="alice") is None
    assert len(quotas.image) == 0


def test_what_changes_nothing_writes_no_record(quotas):
    quotas.alter(change(ALICE, producer_byte_rate=1000.0))
    version = quotas.image.version
    assert quotas.alter(change(ALICE, producer_byte_rate=1000.0, consumer_byte_rate=None)) == [(0, None)]
    assert quotas.image.version == version


def test_a_validation_changes_nothing(quotas):
    assert quotas.alter(change(ALICE, producer_byte_rate=1.0), validate_only=True) == [(0, None)]
    assert len(quotas.image) == 0


def test_all_kinds_of_entities(quotas):
    both = {"client-id": None, "user": "alice"}
    assert (
        quotas.alter(
            change({"user": None}, consumer_byte_rate=1.0),
            change({"client-id": "app"}, controller_mutation_rate=0.5),
            change(both, producer_byte_rate=3.0),
            change({"ip": None}, connection_creation_rate=10.0),
            change({"ip": "10.0.0.1"}, connection_creation_rate=20.0),
        )
        == [(0, None)] * 5
    )
    assert quotas.of(user="alice", client_id=None) == {"producer_byte_rate": 3.0}
    assert len(quotas.image) == 5


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        ({}, {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "Empty user not supported"),
        ({"ip": "::1", "user": "u"}, {"producer_byte_rate": 1.0}, "Invalid quota entity combination"),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1.0}, "nowhere is not a valid IP"),
        ({"ip": None}, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        (ALICE, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        (ALICE, {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"request_percentage": math.nan}, "Quota request_percentage must be greater than 0"),
        (ALICE, {"producer_byte_rate": math.nan}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"consumer_byte_rate": math.inf}, "consumer_byte_rate is too large for a LONG."),
        (ALICE, {"controller_mutation_rate": -math.inf}, "must be greater than 0"),
        ({"ip": None}, {"connection_creation_rate": math.inf}, "is too large for an INT."),
        (ALICE, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (ALICE, {"producer_byte_rate": 1e19}, "producer_byte_rate is too large for a LONG."),
        ({"ip": None}, {"connection_creation_rate": 3e9}, "is too large for an INT."),
    ],
)
def test_what_is_refused(quotas, entity, values, message):
    ((code, text), after) = quotas.alter(
        change(entity, **values), change({"user": "bob"}, request_percentage=1.0)
    )
    assert code == INVALID
    assert message in text
    assert after == (0, None), "other entities of the request are changed"


def test_an_entity_is_changed_completely_or_not_at_all(quotas):
    quotas.alter(change(ALICE, producer_byte_rate=1.0, consumer_byte_rate=-1.0))
    assert quotas.of(user="alice") is None


def test_of_two_changes_of_an_entity_the_first_counts(quotas):
    ((code, text),) = quotas.alter(
        change(ALICE, producer_byte_rate=1.0), change(ALICE, producer_byte_rate=2.0)
    )
    assert (code, text) == (INVALID, "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})")
    assert quotas.of(user="alice") == {"producer_byte_rate": 1.0}


def test_too_many_changes_at_once_are_refused(quotas):
    with pytest.raises(KafkaError, match="excessively large"):
        quotas.alter(*(change({"user": f"u{i}"}, request_percentage=1.0) for i in range(10_001)))


def test_a_copy_does_not_change(quotas):
    quotas.alter(change(ALICE, producer_byte_rate=1.0))
    copy = quotas.image.copy()
    quotas.alter(change(ALICE, consumer_byte_rate=1.0))
    assert copy.entities == {(("user", "alice"),): {"producer_byte_rate": 1.0}}
    assert copy.version != quotas.image.version
    replayed = ClientQuotasImage()
    for record in quotas.image.records():
        replayed.apply(record)
    assert replayed.entities == quotas.image.entities
