"""UpdateFeatures on a node alone: old data directories get the features of newer releases."""

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.broker.controller_node import ControllerServer
from bowstring.engine.metadata.store.bootstrap import bootstrap_snapshot
from bowstring.engine.raft.voters import Endpoint
from bowstring.protocol.errors import Errors
from bowstring.protocol.features import FINALIZED_FEATURES
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.first_levels import write_first_levels
from tests.support.quorum_nodes import format_directory
from tests.support.waiting import wait_until

UPGRADE, SAFE = 1, 2
RECORDS = encode_batch([(None, b"v", 1, None)] * 2)
JOIN = {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["t"], "topic_partitions": []}


def updated(served, *changes, version=2, **fields):
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in changes
    ]
    return served.ask(UpdateFeaturesRequest(feature_updates=keys, **fields), version)


def levels(served):
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    return {each.name: each.max_version_level for each in served.ask(request, 4).finalized_features}


def heartbeat(served):
    return served.ask(ConsumerGroupHeartbeatRequest(member_epoch=0, rebalance_timeout_ms=60000, **JOIN), 1)


@pytest.fixture(name="old")
def of_an_old_release(serve, tmp_path):
    """A broker whose log has metadata.version only, at an old level."""
    write_first_levels(tmp_path / "data", {"metadata.version": 16})
    return serve()


def test_an_old_data_directory_gets_the_features_of_this_release(old):
    old.create_topic("t")
    assert levels(old) == {"metadata.version": 16}
    assert heartbeat(old).error_code == Errors.UNSUPPORTED_VERSION.code
    changes = [(name, level, UPGRADE) for name, level in FINALIZED_FEATURES.items()]
    assert updated(old, *changes, validate_only=True).error_code == 0
    assert levels(old) == {"metadata.version": 16}
    assert updated(old, *changes).error_code == 0
    assert levels(old) == FINALIZED_FEATURES
    old.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    wait_until(lambda: heartbeat(old).error_code == 0)
    assert old.produce("t", RECORDS).error_code == 0
    old.restart()
    assert levels(old) == FINALIZED_FEATURES
    assert old.produce("t", RECORDS).base_offset == 2


def test_a_directory_that_kafka_4_4_formatted_has_its_levels(serve, tmp_path):
    """The log has the levels from the first start, not only the snapshot that formatting wrote (KIP-1170)."""
    first = {"metadata.version": 30, "share.version": 1}
    write_first_levels(tmp_path / "data", first, as_kafka_4_4=True)
    format_directory(tmp_path / "data", 1)
    served = serve()
    assert levels(served) == first
    bootstrap_snapshot(tmp_path / "data").unlink()
    served.restart()
    assert levels(served) == first


@pytest.mark.parametrize(
    "change",
    [
        ("group.version", 2, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("unknown.version", 1, UPGRADE),
        ("metadata.version", 22, SAFE),
        ("kraft.version", 2, UPGRADE),
    ],
)
def test_nothing_changes_when_one_level_is_refused(served, change):
    before = levels(served)
    refused = updated(served, ("share.version", 0, SAFE), change)
    assert refused.error_code == Errors.INVALID_UPDATE_VERSION.code
    assert change[0] in refused.error_message
    assert levels(served) == before


def test_a_feature_is_disabled_at_once(served):
    assert updated(served, ("group.version", 0, SAFE), version=1).results[0].feature == "group.version"
    assert "group.version" not in levels(served)
    assert heartbeat(served).error_code == Errors.UNSUPPORTED_VERSION.code


def test_the_only_voter_comes_into_the_log_and_stays(served):
    assert updated(served, ("kraft.version", 0, UPGRADE)).error_code == 0
    assert "kraft.version" not in levels(served)
    for _ in range(2):
        assert updated(served, ("kraft.version", 1, UPGRADE)).error_code == 0
    assert levels(served)["kraft.version"] == 1
    end = served.engine.metadata.end_offset
    served.restart()
    assert served.engine.metadata.end_offset > end, "the log goes on"
    assert levels(served)["kraft.version"] == 1
    (voter,) = served.engine.metadata.quorum.voters.voters
    assert (voter.voter_id, voter.voter_directory_id) == (
        served.engine.node_id,
        served.engine.directory.directory_id,
    )
    lowered = updated(served, ("kraft.version", 0, SAFE))
    assert lowered.error_code == Errors.INVALID_UPDATE_VERSION.code
    assert "cannot be lowered" in lowered.error_message


def test_a_voter_that_earlier_releases_named_by_its_listeners_for_clients_opens(served, monkeypatch):
    with monkeypatch.context() as patches:
        named = property(lambda server: (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
        patches.setattr(ControllerServer, "voter_endpoints", named)
        served.restart()
        assert updated(served, ("kraft.version", 1, UPGRADE)).error_code == 0
        (voter,) = served.engine.metadata.quorum.voters.voters
        assert [each.port for each in voter.endpoints] == [9092]
    served.restart()
    assert levels(served)["kraft.version"] == 1
    served.create_topic("t")
    (voter,) = served.engine.metadata.quorum.voters.voters
    assert voter.voter_id == served.engine.node_id
    assert [each.port for each in voter.endpoints] == [9092], "it has no other listener to name"


def test_more_features_than_one_request_may_change_are_refused(served):
    changes = [(f"f{number}", 0, UPGRADE) for number in range(10_001)]
    assert updated(served, *changes).error_code == Errors.POLICY_VIOLATION.code
