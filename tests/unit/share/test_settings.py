"""The configs of share groups that the leaders of partitions use."""

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import GROUP_RESOURCE
from bowstring.engine.share.leader.settings import share_settings


class Image:
    """Has the configs of one group."""

    def __init__(self, own):
        self.own = own

    def resource_configs(self, kind, name):
        return self.own if (kind, name) == (GROUP_RESOURCE, "g") else {}


@pytest.mark.parametrize(
    ("own", "found"),
    [({}, 7), ({"share.delivery.count.limit": "8"}, 8), ({"share.delivery.count.limit": "25"}, 9)],
)
def test_a_groups_own_setting_is_within_the_brokers_bounds(own, found):
    configs = BrokerConfigs(
        {"group.share.delivery.count.limit": "7", "group.share.max.delivery.count.limit": "9"}
    )
    assert share_settings("g", Image(own), configs).delivery_count == found
