"""Configs of replication quotas, as one broker reads them."""

import pytest

from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS
from bowstring.engine.replication.throttles import is_throttled, rate_limit


@pytest.mark.parametrize(
    ("text", "found"),
    [("", []), ("*", [(0, 1), (0, 2), (7, 2)]), ("0:1,7:2", [(0, 1), (7, 2)]), ("10:1", [])],
)
def test_lists_name_replicas(text, found):
    replicas = TOPIC_CONFIGS["leader.replication.throttled.replicas"].parse(text)
    assert [each for each in ((0, 1), (0, 2), (7, 2)) if is_throttled(replicas, *each)] == found


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_rates_are_unlimited_by_default(side):
    key = BROKER_CONFIGS[f"{side}.replication.throttled.rate"]
    assert rate_limit(key.parse(key.default or "")) is None
    assert rate_limit(key.parse("1000")) == 1000
    assert rate_limit(key.parse("0")) == 0
