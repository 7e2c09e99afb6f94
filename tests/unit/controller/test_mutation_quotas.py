"""Quotas on the partitions that clients create and delete, with a clock of the test."""

import math

import pytest

from bowstring.engine.controller import mutation_quotas
from bowstring.engine.controller.mutation_quotas import MutationQuotas, TokenBucket
from bowstring.engine.metadata.client_quotas_image import CONTROLLER_MUTATION_RATE
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord, EntityData

STRICT, PERMISSIVE = 6, 5
BURST_S = 11


class Quotas:
    def __init__(self):
        self.now_s = 1000.0
        self.image = ClusterImage()
        self.quotas = MutationQuotas(self, BURST_S, lambda: self.now_s)

    def set(self, rate, **entity):
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        self.image.apply(ClientQuotaRecord(entity=parts, key=CONTROLLER_MUTATION_RATE, value=rate))

    def of(self, version=STRICT, user="alice", client_id="app"):
        return self.quotas.of(f"User:{user}", client_id, is_strict=version >= STRICT)


@pytest.fixture
def quotas():
    return Quotas()


def test_without_a_quota_nothing_is_refused(quotas):
    quota = quotas.of()
    quota.count(1_000_000)
    assert quota.throttle_ms == 0


def test_a_strict_quota_takes_one_request_beyond_it_and_refuses_the_next(quotas):
    quotas.set(2.0, user="alice")
    first = quotas.of()
    first.count(22 + 10)
    assert first.throttle_ms == 0
    second = quotas.of()
    with pytest.raises(KafkaError) as refused:
        second.count(1)
    assert refused.value.error is Errors.THROTTLING_QUOTA_EXCEEDED
    assert second.throttle_ms == 5000
    quotas.now_s += 4.5
    assert second.throttle_ms == 500
    quotas.now_s += 0.5
    quotas.of().count(1)


@pytest.mark.parametrize("rate", [math.inf, math.nan, 1e308, 9.3e18])
@pytest.mark.parametrize("version", [STRICT, PERMISSIVE])
def test_a_rate_without_end_limits_nothing(quotas, version, rate):
    quotas.set(rate, user="alice")
    for _ in range(3):
        quota = quotas.of(version)
        quota.count(1_000_000)
        assert quota.throttle_ms == 0
        quotas.now_s += 1.0


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-9])
def test_a_rate_near_zero_makes_clients_wait_as_long_as_an_answer_can_say(quotas, rate):
    quotas.set(rate, user="alice")
    quota = quotas.of(PERMISSIVE)
    quota.count(1_000_000)
    assert quota.throttle_ms == (1 << 31) - 1
    with pytest.raises(KafkaError):
        quotas.of(STRICT).count(1)


def test_a_permissive_quota_only_makes_the_client_wait(quotas):
    quotas.set(2.0, user="alice")
    quota = quotas.of(PERMISSIVE)
    quota.count(22)
    assert quota.throttle_ms == 0
    quota.count(10)
    assert quota.throttle_ms == 5000
    quota.count(2)
    assert quota.throttle_ms == 6000


def test_clients_of_a_user_share_its_tokens(quotas):
    quotas.set(1.0, user=None)
    quotas.of(client_id="a").count(100)
    with pytest.raises(KafkaError):
        quotas.of(client_id="b").count(1)
    quotas.of(user="bob").count(1)


def test_a_changed_rate_counts_from_then_on(quotas):
    quotas.set(1.0, user="alice")
    quotas.of().count(BURST_S + 10)
    quotas.set(10.0, user="alice")
    quotas.now_s += 1.0
    quotas.of().count(1)


def test_tokens_are_saved_up_to_a_burst():
    bucket = TokenBucket(3.0, 2.0, 0.0)
    bucket.take(5, 0.0)
    assert bucket.tokens(0.0) == 1
    assert not bucket.is_full(1.0)
    assert bucket.is_full(2.0)
    assert bucket.tokens(1e9) == 6


def test_buckets_are_bounded(quotas, monkeypatch):
    monkeypatch.setattr(mutation_quotas, "BUCKETS_MAX", 3)
    quotas.set(1.0, **{"client-id": None})
    for i in range(4):
        quotas.of(client_id=f"c{i}").count(BURST_S + 1)
    with pytest.raises(KafkaError):
        quotas.of(client_id="c4").count(1)
    quotas.now_s += 2 * BURST_S
    quotas.of(client_id="c5").count(1)
