"""Feature levels: what may change, what comes with it; the registration of controllers; producer ids."""

import pytest

from bowstring.engine.controller.controllers import register_controller, unregister_controller
from bowstring.engine.controller.features import update_features
from bowstring.engine.controller.producer_ids import allocate
from bowstring.engine.metadata.config_changes import SET, Change, alter_incrementally
from bowstring.engine.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from bowstring.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature
from bowstring.protocol.messages.unregister_controller import UnregisterControllerRequest
from bowstring.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from tests.support.controller import TOPIC, ControllerCluster, error_of

UPGRADE, SAFE, UNSAFE = 1, 2, 3
ELR = "eligible.leader.replicas.version"


def update(cluster: ControllerCluster, *updates, version: int = 2, validate_only: bool = False):
    request = UpdateFeaturesRequest(
        validate_only=validate_only,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
    )
    return cluster.decide(update_features(cluster.state, request, version))


def test_metadata_version_rises():
    cluster = ControllerCluster(level=20)
    assert update(cluster, ("metadata.version", 33, UPGRADE), validate_only=True).error_code == 0
    assert cluster.state.metadata_version == 20
    update(cluster, ("metadata.version", 33, UPGRADE))
    assert cluster.state.metadata_version == 33


@pytest.mark.parametrize(
    "change",
    [
        ("metadata.version", 34, UPGRADE),
        ("metadata.version", 32, UPGRADE),
        ("metadata.version", 32, SAFE),
        ("metadata.version", 32, UNSAFE),
        ("metadata.version", -1, SAFE),
        ("metadata.version", 33, 0),
        ("group.version", 1, UPGRADE),
        ("kraft.version", 2, UPGRADE),
        ("kraft.version", -1, SAFE),
        (ELR, 1, SAFE),
    ],
)
def test_what_is_refused(change):
    cluster = ControllerCluster(1)
    assert error_of(lambda: update(cluster, change)) is Errors.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("present", "lowered", "refused"), [(31, 30, 29), (32, 32, 31), (33, 33, 32)])
def test_levels_of_kafka_4_4(present, lowered, refused):
    """Level 31 has no new metadata (KIP-1191); 32 has new host patterns (KIP-1276), 33 a new record (KIP-1312)."""
    cluster = ControllerCluster(level=present)
    assert update(cluster, ("metadata.version", lowered, SAFE), validate_only=True).error_code == 0
    down = ("metadata.version", refused, SAFE)
    assert error_of(lambda: update(cluster, down)) is Errors.INVALID_UPDATE_VERSION


def test_levels_without_new_metadata_can_be_lowered():
    cluster = ControllerCluster(level=29)
    assert update(cluster, ("metadata.version", 23, SAFE)).error_code == 0
    assert error_of(lambda: update(cluster, ("metadata.version", 22, SAFE))) is Errors.INVALID_UPDATE_VERSION


def test_old_requests_have_a_result_for_each_feature():
    cluster = ControllerCluster(level=20)
    answer = update(cluster, ("metadata.version", 21, UPGRADE), version=1)
    assert [each.feature for each in answer.results] == ["metadata.version"]


def test_a_feature_named_twice_is_refused():
    cluster = ControllerCluster()
    twice = [("metadata.version", 30, UPGRADE)] * 2
    assert error_of(lambda: update(cluster, *twice)) is Errors.INVALID_REQUEST


def test_every_broker_and_voter_must_support_a_level():
    cluster = ControllerCluster(1)  # its registration names no features
    assert error_of(lambda: update(cluster, (ELR, 1, UPGRADE))) is Errors.INVALID_UPDATE_VERSION
    cluster = ControllerCluster()
    cluster.state.voters = lambda: [100, 101]
    assert error_of(lambda: update(cluster, (ELR, 1, UPGRADE))) is Errors.INVALID_UPDATE_VERSION
    features = [Feature(name=ELR, min_supported_version=0, max_supported_version=1)]
    request = ControllerRegistrationRequest(controller_id=101, features=features)
    cluster.decide(register_controller(cluster.state, request))
    [record] = cluster.state.image.kept.of(RegisterControllerRecord)
    assert record.controller_id == 101
    update(cluster, (ELR, 1, UPGRADE))
    assert cluster.state.has_eligible_leaders


def test_eligible_leaders_fix_the_minimum_for_all_brokers():
    cluster = ControllerCluster(level=22, min_insync_replicas="2")
    own = {"resource_type": 4, "resource_name": "7", "name": "min.insync.replicas"}
    cluster.apply([ConfigRecord(**own, value="3")])
    assert error_of(lambda: update(cluster, (ELR, 1, UPGRADE))) is Errors.INVALID_UPDATE_VERSION
    update(cluster, ("metadata.version", 23, UPGRADE), (ELR, 1, UPGRADE))
    assert cluster.state.image.resource_configs(4, "") == {"min.insync.replicas": "2"}
    assert cluster.state.image.resource_configs(4, "7") == {}


def test_eligible_leaders_are_forgotten_with_their_feature():
    cluster = ControllerCluster(eligible_leaders=True)
    cluster.add_topic([1, 2], isr=[1], eligible_leader_replicas=[2])
    assert list(cluster.state.index.eligible(2))
    update(cluster, (ELR, 0, SAFE))
    assert cluster.partition().eligible_leaders == ()
    assert not cluster.state.index.eligible(2)


def lone_replica(*, stopped_uncleanly: bool) -> ControllerCluster:
    """A partition whose only replica is fenced, and then no eligible leader if it stopped uncleanly."""
    cluster = ControllerCluster(1, eligible_leaders=True)
    cluster.add_topic([1])
    cluster.fence(1)
    assert cluster.partition().eligible_leaders == (1,)
    if stopped_uncleanly:
        cluster.now_ms += 9001
        cluster.register(1, incarnation=2)
        assert cluster.partition().eligible_leaders == ()
    return cluster


@pytest.mark.parametrize("stopped_uncleanly", [False, True])
def test_the_last_replica_is_not_forgotten_with_the_feature(stopped_uncleanly):
    cluster = lone_replica(stopped_uncleanly=stopped_uncleanly)
    update(cluster, (ELR, 0, SAFE))
    assert cluster.partition().in_sync == (1,)
    assert cluster.partition().eligible_leaders == cluster.partition().last_known_leaders == ()
    cluster.heartbeat(1)
    assert cluster.partition().leader == 1


@pytest.mark.parametrize("resource", [(TOPIC_RESOURCE, TOPIC), (BROKER_RESOURCE, "")])
@pytest.mark.parametrize("stopped_uncleanly", [False, True])
def test_the_last_replica_is_not_forgotten_with_another_minimum(stopped_uncleanly, resource):
    """Found by seed 2005 of whole nodes: the partition had no leader ever after."""
    cluster = lone_replica(stopped_uncleanly=stopped_uncleanly)
    state, wanted = cluster.state, [Change("min.insync.replicas", SET, "2")]
    cluster.apply(alter_incrementally(state.image, state.configs, resource, wanted))
    assert cluster.partition().leader == -1
    cluster.heartbeat(1)
    assert cluster.partition().leader == 1
    assert cluster.partition().in_sync == (1,)


def test_the_last_replica_of_a_partition_without_a_leader_is_the_last_known_one():
    """Found by seed 618 of whole nodes: the feature was turned on while the partition had no leader, and its last
    replica had stopped uncleanly. No one led ever after.
    """
    cluster = ControllerCluster()
    cluster.register(1)
    cluster.heartbeat(1)
    cluster.add_topic([1])
    cluster.fence(1)
    assert (cluster.partition().leader, cluster.partition().in_sync) == (-1, (1,))
    update(cluster, (ELR, 1, UPGRADE))
    cluster.now_ms += 9001
    cluster.register(1, incarnation=2)
    assert cluster.partition().in_sync == cluster.partition().eligible_leaders == ()
    assert cluster.partition().last_known_leaders == (1,)
    cluster.heartbeat(1)
    assert (cluster.partition().leader, cluster.partition().last_known_leaders) == (1, ())


def test_who_leads_alone_under_a_lower_minimum_has_no_eligible_ones_beside():
    cluster = ControllerCluster(2, eligible_leaders=True, min_insync_replicas="2")
    cluster.add_topic([1, 2])
    cluster.fence(2)
    cluster.fence(1)
    state, wanted = cluster.state, [Change("min.insync.replicas", SET, "1")]
    cluster.apply(alter_incrementally(state.image, state.configs, (TOPIC_RESOURCE, TOPIC), wanted))
    assert set(cluster.partition().eligible_leaders) == {1, 2}
    cluster.heartbeat(1)
    partition = cluster.partition()
    assert (partition.leader, partition.in_sync, partition.eligible_leaders) == (1, (1,), ())


def test_controllers_register_once_the_cluster_knows_of_it():
    cluster = ControllerCluster(level=14)
    request = ControllerRegistrationRequest(controller_id=101)
    assert error_of(lambda: register_controller(cluster.state, request)) is Errors.UNSUPPORTED_VERSION


def register(cluster: ControllerCluster, node_id: int) -> None:
    features = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)]
    request = ControllerRegistrationRequest(controller_id=node_id, features=features)
    cluster.decide(register_controller(cluster.state, request))


def unregister(cluster: ControllerCluster, node_id: int):
    request = UnregisterControllerRequest(controller_id=node_id)
    return cluster.decide(unregister_controller(cluster.state, request))


def test_the_registration_of_a_controller_that_is_gone_is_removed():
    """Until then its levels bound those of the cluster (KIP-1312)."""
    cluster = ControllerCluster()
    register(cluster, 101)
    higher = (ELR, 1, UPGRADE)
    assert error_of(lambda: update(cluster, higher)) is Errors.INVALID_UPDATE_VERSION
    answer = unregister(cluster, 101)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert list(cluster.state.image.kept.of(RegisterControllerRecord)) == []
    update(cluster, higher)
    register(cluster, 101)
    assert len(list(cluster.state.image.kept.of(RegisterControllerRecord))) == 1


def test_which_registrations_of_controllers_stay():
    cluster = ControllerCluster(level=32)
    own = cluster.state.node_id
    register(cluster, 101)
    assert error_of(lambda: unregister(cluster, own)) is Errors.INVALID_REQUEST
    assert error_of(lambda: unregister(cluster, 101)) is Errors.UNSUPPORTED_VERSION
    update(cluster, ("metadata.version", 33, UPGRADE))
    assert error_of(lambda: unregister(cluster, 102)) is Errors.CONTROLLER_ID_NOT_REGISTERED
    assert error_of(lambda: unregister(cluster, own)) is Errors.INVALID_REQUEST


def test_blocks_of_producer_ids_do_not_overlap():
    cluster = ControllerCluster(2)
    blocks = [
        cluster.decide(
            allocate(
                cluster.state, AllocateProducerIdsRequest(broker_id=each, broker_epoch=cluster.epoch(each))
            )
        )
        for each in (1, 2, 1)
    ]
    assert [each.producer_id_start for each in blocks] == [0, 1000, 2000]
    assert {each.producer_id_len for each in blocks} == {1000}
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=99)
    assert error_of(lambda: allocate(cluster.state, stale)) is Errors.STALE_BROKER_EPOCH
