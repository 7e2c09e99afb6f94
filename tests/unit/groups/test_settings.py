"""Settings of one group: its own within the broker's bounds, or the broker's, as they are now."""

import pytest

from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.modern.settings import setting
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams.settings import settings
from tests.support.consumer_group_harness import ConsumerShell

BROKER = {
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.session.timeout.ms": 40_000,
    "group.consumer.max.session.timeout.ms": 60_000,
}


def state_of(own, broker, **defaults):
    shell = ConsumerShell()
    for name, value in own.items():
        shell.configure(name, value)
    view = ClusterView(shell, None if broker is None else broker.get)
    return ShardState(GroupConfig(**defaults), lambda: "", view)


def timeout_ms(own, broker):
    own = {} if own is None else {"consumer.session.timeout.ms": own}
    state = state_of(own, broker, group_consumer_session_timeout_ms=1)
    return setting(state, "g", "consumer", "session.timeout.ms")


@pytest.mark.parametrize(
    ("own", "broker", "found"),
    [
        (None, None, 1),
        ("7", None, 7),
        (None, BROKER, 45_000),
        ("50000", BROKER, 50_000),
        ("10", BROKER, 40_000),
        ("70000", BROKER, 60_000),
        (None, {**BROKER, "group.consumer.session.timeout.ms": 46_000}, 46_000),
    ],
)
def test_a_setting(own, broker, found):
    assert timeout_ms(own, broker) == found


def test_settings_of_a_streams_group_are_within_bounds_too():
    own = {"streams.session.timeout.ms": "99", "streams.num.standby.replicas": "9"}
    bounds = {"group.streams.min.session.timeout.ms": 45_000, "group.streams.max.standby.replicas": 2}
    found = settings(state_of(own, {**bounds, "group.streams.heartbeat.interval.ms": 6_000}), "g")
    assert (found.session_timeout_ms, found.num_standby_replicas) == (45_000, 2)
    assert (found.heartbeat_interval_ms, found.initial_rebalance_delay_ms) == (6_000, 3_000)
