"""Tokens for the local socket."""

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.local import tokens as local_tokens
from bowstring.engine.local.tokens import LOGIN_MAX_S, VALID_S, LocalTokens


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def give(tokens, principal="User:alice", listener="OUTER"):
    return tokens.give(principal, "10.0.0.1:5", listener)


def test_a_token_says_once_who_got_it(clock):
    tokens = LocalTokens(BrokerConfigs({}), clock)
    alices, bobs = give(tokens), give(tokens, "User:bob")
    assert alices != bobs
    login = tokens.take(alices)
    assert (login.principal, login.peer) == ("User:alice", "10.0.0.1:5")
    assert login.until_s == clock.now_s + LOGIN_MAX_S
    assert tokens.take(alices) is None
    assert tokens.take("other") is None
    assert tokens.take(bobs).principal == "User:bob"


def test_an_old_token_opens_nothing(clock):
    tokens = LocalTokens(BrokerConfigs({}), clock)
    token = give(tokens)
    clock.now_s += VALID_S
    assert tokens.take(token) is None
    assert len(tokens) == 0


def test_a_login_lasts_no_longer_than_those_of_its_listener(clock):
    settings = {"connections.max.reauth.ms": "0", "listener.name.outer.connections.max.reauth.ms": "5000"}
    tokens = LocalTokens(BrokerConfigs(settings), clock)
    assert tokens.take(give(tokens)).until_s == clock.now_s + 5
    assert tokens.take(give(tokens, listener="INNER")).until_s == clock.now_s + LOGIN_MAX_S


def test_who_asks_again_and_again_takes_no_memory_and_no_place_of_others(clock, monkeypatch):
    monkeypatch.setattr(local_tokens, "PENDING_OF_PRINCIPAL_MAX", 2)
    monkeypatch.setattr(local_tokens, "PENDING_MAX", 3)
    tokens = LocalTokens(BrokerConfigs({}), clock)
    first, second, third = (give(tokens) for _ in range(3))
    bobs = give(tokens, "User:bob")
    assert give(tokens, "User:carol") is None
    assert tokens.take(first) is None
    assert None not in (tokens.take(second), tokens.take(third), tokens.take(bobs))


def test_a_wrong_token_costs_no_look_at_the_others(clock):
    class Moment(float):
        looks = 0

        def __add__(self, other):
            return Moment(float(self) + other)

        def __le__(self, other):
            Moment.looks += 1
            return float(self) <= other

        def __gt__(self, other):
            Moment.looks += 1
            return float(self) > other

    tokens = LocalTokens(BrokerConfigs({}), clock)
    for i in range(100):
        clock.now_s = Moment(i / 100)
        assert give(tokens, f"User:{i}")
    Moment.looks = 0
    for _ in range(10):
        assert tokens.take("other") is None
    assert Moment.looks <= 20
    clock.now_s = Moment(VALID_S + 0.495)
    assert tokens.take("other") is None
    assert len(tokens) == 50
