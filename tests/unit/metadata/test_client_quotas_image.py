"""Which quota a client has."""

import math

import pytest

from bowstring.engine.metadata.client_quotas_image import NO_LIMIT, ClientQuotasImage, limit_of
from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord, EntityData

KEY = "producer_byte_rate"
LEVELS = (
    ({"user": "u", "client-id": "c"}, ("u", "c")),
    ({"user": "u", "client-id": None}, ("u", "c")),
    ({"user": "u"}, ("u", "")),
    ({"user": None, "client-id": "c"}, ("u", "c")),
    ({"user": None, "client-id": None}, ("u", "c")),
    ({"user": None}, ("u", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
)


def image_of(*entities, key=KEY):
    image = ClientQuotasImage()
    for i, entity in enumerate(entities):
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        image.apply(ClientQuotaRecord(entity=parts, key=key, value=float(i + 1)))
    return image


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_counts(first):
    image = image_of(*(entity for entity, _ in LEVELS[first:]))
    assert image.find(KEY, "u", "c") == (LEVELS[first][1], 1.0)


def test_others_have_none():
    image = image_of(*(entity for entity, _ in LEVELS if None not in entity.values()))
    assert image.find(KEY, "v", "d") is None
    assert image.find("consumer_byte_rate", "u", "c") is None
    assert image_of(*(entity for entity, _ in LEVELS), key="other").find(KEY, "u", "c") is None


def test_a_client_without_an_id_has_its_users_quota_only():
    assert image_of({"client-id": None}).find(KEY, "u", "") is None
    assert image_of({"user": None, "client-id": None}, {"user": None}).find(KEY, "u", "") == (("u", ""), 2.0)


@pytest.mark.parametrize("value", [math.inf, math.nan, 0.0, -1.0, -math.inf, 1e308])
def test_a_value_that_limits_nothing(value):
    image = image_of({"user": "u"}, {"client-id": "c"})
    assert image.find(KEY, "u", "c") == (("u", ""), 1.0)
    parts = [EntityData(entity_type="user", entity_name="u")]
    image.apply(ClientQuotaRecord(entity=parts, key=KEY, value=value))
    assert image.find(KEY, "u", "c") is None  # the most specific one counts
    assert image.find(KEY, "v", "c") == (("", "c"), 2.0)
    assert limit_of(value) == NO_LIMIT
