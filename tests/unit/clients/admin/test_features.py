"""Admin's calls about feature levels, and the commands that use them."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import BrokerError, ConfigError
from bowstring.protocol.features import FINALIZED_FEATURES, KRAFT_VERSION
from tests.support.waiting import HANG_S


@pytest.fixture
def bootstrap():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap):
    with Admin(bootstrap, timeout_ms=int(HANG_S * 1000)) as made:
        yield made


def test_levels(admin):
    found = admin.describe_features()
    assert {name: each.level for name, each in found.items() if each.level} == FINALIZED_FEATURES
    assert found["share.version"] == (2, 0, 2) and found[KRAFT_VERSION].level == 0
    with pytest.raises(BrokerError, match="downgrade"):
        admin.update_features({"share.version": 0})
    admin.update_features({"share.version": 0}, change="downgrade", validate_only=True)
    assert admin.describe_features() == found
    admin.update_features({"share.version": 0, "group.version": 0}, change="unsafe downgrade")
    assert admin.describe_features()["share.version"].level == 0
    with pytest.raises(BrokerError, match=r"share\.version"):
        admin.update_features({"group.version": 1, "share.version": 7})
    assert admin.describe_features()["group.version"].level == 0
    with pytest.raises(ConfigError, match="unsafe downgrade"):
        admin.update_features({}, change="sideways")


def test_commands(admin, cli):
    lowered = cli("features", "downgrade", "share.version=0", "streams.version=0")
    assert lowered.code == 0 and "changed share.version to level 0" in lowered.err
    assert "streams.version" in cli("features", "describe").out
    tried = cli("features", "upgrade", "--all", "--dry-run", "--json").json
    assert [(each["feature"], each["changed"]) for each in tried] == [
        ("share.version", False),
        ("streams.version", False),
    ]
    assert cli("features", "upgrade", "share.version=1").code == 0
    assert "changed streams.version to level 1" in cli("features", "upgrade", "--all").err
    assert "every feature has" in cli("features", "upgrade", "--all").err
    levels = {each["feature"]: each["level"] for each in cli("features", "describe", "--json").json}
    assert {name: level for name, level in levels.items() if level} == FINALIZED_FEATURES
    refused = cli("features", "upgrade", "share.version=7")
    assert refused.code == 1 and "INVALID_UPDATE_VERSION" in refused.err
    for wrong in (
        ("upgrade",),
        ("upgrade", "share.version"),
        ("upgrade", "share.version=-1"),
        ("downgrade", "--all"),
    ):
        assert cli("features", *wrong).code == 2
