import pytest

from bowstring.engine.controller.delegation_tokens import (
    Lifetimes,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
)
from bowstring.engine.metadata.delegation_tokens_image import DelegationTokensImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.security import RemoveDelegationTokenRecord

LIFETIMES = Lifetimes(max_ms=1000, renewal_ms=100)


def created(*, max_lifetime_ms=-1, renewers=(("User", "bob"),), token_id="t"):
    return create_token(
        token_id,
        owner="User:alice",
        requester="User:admin",
        renewers=renewers,
        max_lifetime_ms=max_lifetime_ms,
        lifetimes=LIFETIMES,
        now_ms=5000,
    ).answer


def test_lifetimes_of_a_new_token():
    token = created()
    assert (token.issue_timestamp, token.expiration_timestamp, token.max_timestamp) == (5000, 5100, 6000)
    token = created(max_lifetime_ms=50)
    assert (token.expiration_timestamp, token.max_timestamp) == (5050, 5050)
    assert created(max_lifetime_ms=5000).max_timestamp == 6000
    assert token.renewers == ["User:bob"]


def test_renewers_are_users():
    with pytest.raises(KafkaError) as caught:
        created(renewers=[("Group", "bob")])
    assert caught.value.error is Errors.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(("period_ms", "end_ms"), [(-1, 5190), (10, 5100), (500, 5190), (0, 5190)])
def test_renewing(period_ms, end_ms):
    decision = renew_token(created(), "User:bob", period_ms, lifetimes=LIFETIMES, now_ms=5090)
    assert decision.answer == decision.records[0].expiration_timestamp == end_ms


def test_a_token_does_not_outlive_its_longest_life():
    token = created()
    token.expiration_timestamp = 6000
    assert renew_token(token, "User:alice", -1, lifetimes=LIFETIMES, now_ms=5990).answer == 6000


def test_expiring():
    assert expire_token(created(), "User:alice", 20, now_ms=5010).answer == 5030
    decision = expire_token(created(), "User:alice", -1, now_ms=9000)
    assert decision.records == [RemoveDelegationTokenRecord(token_id="t")] and decision.answer == 9000


@pytest.mark.parametrize(
    ("token", "principal", "now_ms", "error"),
    [
        (None, "User:alice", 5000, Errors.DELEGATION_TOKEN_NOT_FOUND),
        (created(), "User:admin", 5000, Errors.DELEGATION_TOKEN_OWNER_MISMATCH),
        (created(), "User:alice", 5101, Errors.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_what_is_refused(token, principal, now_ms, error):
    for change in (
        lambda: renew_token(token, principal, 1, lifetimes=LIFETIMES, now_ms=now_ms),
        lambda: expire_token(token, principal, 1, now_ms=now_ms),
    ):
        with pytest.raises(KafkaError) as caught:
            change()
        assert caught.value.error is error


def test_expired_tokens_are_removed():
    image = DelegationTokensImage()
    image.add(created())
    image.add(created(max_lifetime_ms=10, token_id="short"))
    decision = remove_expired(image, 5050)
    assert decision.records == [RemoveDelegationTokenRecord(token_id="short")]
