"""Settings of one group: its own within the broker's bounds, or the broker's, as they are now."""

import pytest

from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.modern.settings import setting
from bowstring.engine.groups.state import ShardState
from tests.support.consumer_group_harness import ConsumerShell

BROKER = {
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.session.timeout.ms": 40_000,
    "group.consumer.max.session.timeout.ms": 60_000,
}


def timeout_ms(own, broker):
    shell = ConsumerShell()
    if own is not None:
        shell.configure("consumer.session.timeout.ms", own)
    view = ClusterView(shell, None if broker is None else broker.get)
    state = ShardState(GroupConfig(group_consumer_session_timeout_ms=1), lambda: "", view)
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
